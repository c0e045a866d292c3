"""What a program reads, file by file: `python -m ioprof --out DIR -- command`."""
