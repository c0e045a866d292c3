"""Power limits and clocks of a job's devices: set, read back, and restored on every way out.

`guardian` is the process that holds them, `hold` its logic, `kept` the file for the next start, and there is one file
per vendor.
"""
