"""Helpers of jpwr and ioprof for running another command."""
