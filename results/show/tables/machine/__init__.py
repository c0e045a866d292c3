"""Tables of a machine: its nodes and its operating points."""
