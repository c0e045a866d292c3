"""Tables of a machine: its nodes."""
