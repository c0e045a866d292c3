"""Code that all workloads on PyTorch share: devices, events, process groups."""
