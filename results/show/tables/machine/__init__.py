"""Tables of a machine: its nodes, its operating points and its history."""
