"""Power limits and clocks of a job's devices: set, read back, and restored at the end, or by the next start of jpwr."""
