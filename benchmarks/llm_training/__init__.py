"""GPT training with megatron-core: tokens per second and, with the power beside it, per watt-hour."""
