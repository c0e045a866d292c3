"""Started by a test: the program without the dropout of LoRA, whose random numbers differ between layouts."""

from benchmarks.common.run import leave
from benchmarks.llm_training.gpt import lora
from benchmarks.llm_training.train import main

lora.DROPOUT = 0.0
leave(main())
