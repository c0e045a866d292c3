"""LLM inference with energy: a server under load, and a client that measures what its users see."""
