"""The model: of megatron-core's parts on CPUs and GPUs, of PyTorch's on IPUs."""
