"""Profile of a program's reads, file by file: `python -m ioprof --out DIR -- command`."""
