"""GPT training with megatron-core: tokens per second, and per watt-hour with a measured power."""

import sys
from types import ModuleType

# megatron-core imports TensorBoard, which imports TensorFlow wherever it is installed: 3 s of every start. TensorBoard
# goes without if it finds a module of this name: tensorboard/compat/__init__.py.
sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))
