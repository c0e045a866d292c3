"""The model: of megatron-core's parts on CPUs and GPUs, of PyTorch's on IPUs."""

import sys
from types import ModuleType

# megatron-core imports TensorBoard's writer, which a run does not use. TensorBoard would import TensorFlow where it is
# installed, which takes seconds at each start; where this module exists, it uses its own substitute.
sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))
