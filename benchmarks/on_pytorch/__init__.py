"""What every workload on PyTorch shares: devices, events, process groups."""
