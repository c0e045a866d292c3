"""`python -m benchmarks.llm_training`, alone or under torchrun."""

from benchmarks.common.run import leave, skip_imports
from benchmarks.llm_training.train import main

skip_imports("tensorboard", "wandb")  # of megatron-core; TensorBoard would import TensorFlow, too
if __name__ == "__main__":
    leave(main())
