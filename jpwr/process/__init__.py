"""What a command that runs another one needs: jpwr and ioprof share it."""
