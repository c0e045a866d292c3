"""From records of runs to tables, plots and reports. Reads records and traces, and nothing else."""
