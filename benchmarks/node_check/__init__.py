"""Rates of devices and links, to find slow ones."""
