"""GPT training with megatron-core: tokens per second, and per watt-hour with a measured power."""
