"""Helpers for a command that runs another one; jpwr and ioprof share them."""
