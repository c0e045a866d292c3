"""Options of a run, and its layout on devices."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.options import (
    CheckpointOptions,
    ComputeOptions,
    ConfigError,
    Group,
    RunOptions,
    Seeds,
    TurnsOptions,
    WindowOptions,
    option,
)
from benchmarks.llm_training.sizes import SIZES, ModelSize
from jpwr.messages import number_of

INIT_STD = 0.02  # of weights, as in GPT-2
ADAM_BETAS = (0.9, 0.95)
ADAM_EPS = 1e-8
DEFAULT_BATCH = 16
SWITCH = ("auto", "on", "off")


@dataclass(frozen=True)
class ModelOptions(Group):
    """Model."""

    size: str = option("tiny", "model size", choices=tuple(SIZES))
    sequence_length: int | None = option(None, "tokens per sample; default: the size's own")

    @property
    def shape(self) -> ModelSize:
        """Shape of the model."""
        return SIZES[self.size]

    @property
    def tokens_per_sample(self) -> int:
        """Tokens of a sample."""
        return self.sequence_length or self.shape.sequence_length


@dataclass(frozen=True)
class ParallelOptions(Group):
    """Batch and layout."""

    global_batch_size: int | None = option(
        None,
        f"samples per optimizer step, over all devices; default: {DEFAULT_BATCH}, or one pass on each if that is more",
    )
    micro_batch_size: int | None = option(None, "samples per forward pass, on one device; default: the size's own")
    tensor_parallel_size: int | None = option(None, "devices that share each layer; default: the size's own")
    pipeline_parallel_size: int | None = option(
        None, "stages of devices that share the layers; default: the size's own"
    )
    context_parallel_size: int = option(1, "devices that share each sample, along the sequence")
    expert_parallel_size: int | None = option(
        None, "devices of a pipeline stage that share its experts; default: the size's own"
    )
    sequence_parallel: str = option(
        "auto",
        "also share norms and dropout, along the sequence; auto: with tensor parallelism, on GPUs or with experts",
        SWITCH,
    )
    recompute: str = option(
        "none", "activations that the backward pass recomputes, to save memory", ("none", "selective", "full")
    )
    overlap: str = option("auto", "sum gradients and gather weights while computing; auto: on several GPUs", SWITCH)
    devices: int | None = option(None, "with --dry-run: number of devices on each node")
    nodes: int | None = option(None, "with --dry-run: number of nodes")


@dataclass(frozen=True)
class KernelOptions:
    """Kernels."""

    layers: str = option(
        "auto",
        "source of the layers; auto: TransformerEngine on GPUs if it is installed",
        ("auto", "megatron", "transformer-engine"),
    )
    compile: str = option(
        "auto",
        "torch.compile of bias, activation and loss (parts), or of each layer (layers); auto: parts on GPUs",
        ("auto", "off", "parts", "layers"),
    )
    attention: str = option(
        "auto",
        "kernel of PyTorch's attention; auto: PyTorch's choice",
        ("auto", "flash", "cudnn", "efficient", "math"),
    )
    fp8_recipe: str = option(
        "tensorwise",
        "scales of --precision fp8: of each tensor as it is, of each as it was before, or of each block",
        ("tensorwise", "delayed", "blockwise"),
    )
    cuda_graph: str = option(
        "off", "capture forward and backward pass of a step as one graph, and replay it", ("off", "on")
    )


@dataclass(frozen=True)
class DataOptions:
    """Data."""

    data: str = option("synthetic", "synthetic: random tokens; text: a corpus, from prepare", ("synthetic", "text"))
    data_prefix: str = option("", "path of a .bin/.idx pair without its ending; required by --data text")

    def __post_init__(self) -> None:
        if self.data == "text" and not self.data_prefix:
            raise ConfigError("--data text needs --data-prefix: python -m benchmarks.llm_training.prepare makes one")
        if self.data == "synthetic" and self.data_prefix:
            raise ConfigError("--data-prefix was given, but the data is synthetic: add --data text")


@dataclass(frozen=True)
class TrainingOptions(Seeds):
    """Training."""

    learning_rate: float = option(1e-4, "highest learning rate; it decays to a tenth by a cosine")
    weight_decay: float = option(0.1, "AdamW's weight decay, on matrices only", least=0)
    gradient_clip: float = option(1.0, "largest norm of the gradient over all parameters")


@dataclass(frozen=True)
class Config:
    """All options of a run."""

    model: ModelOptions
    parallel: ParallelOptions
    compute: ComputeOptions
    kernels: KernelOptions
    data: DataOptions
    turns: TurnsOptions
    training: TrainingOptions
    window: WindowOptions
    run: RunOptions
    checkpoint: CheckpointOptions = CheckpointOptions()

    def __post_init__(self) -> None:
        if self.turns.effective and self.data.data == "synthetic":
            raise ConfigError("--effective compares with data on the device: add --data text, or leave it out")
        if self.turns.cold_cache:
            raise ConfigError("--cold-cache was asked for, but text is mapped into memory: leave it out")
        if self.turns.effective and self.compute.device == "ipu":
            raise ConfigError("--effective cannot time single steps on an IPU: leave it out")
        if self.checkpoint.checkpoint and self.model.shape.adapted:
            raise ConfigError("--checkpoint would write the frozen weights of LoRA, too: leave it out")


@dataclass(frozen=True)
class Layout:
    """Layout of model and data on `world_size` devices; the devices of a pipeline stage share its experts."""

    world_size: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    context_parallel_size: int = 1
    expert_parallel_size: int = 1

    @property
    def data_parallel_size(self) -> int:
        """Number of replicas of the model."""
        return self.world_size // (self.tensor_parallel_size * self.pipeline_parallel_size * self.context_parallel_size)

    def check(self, shape: ModelSize, sequence_length: int = 0) -> None:
        """Raise ConfigError unless the devices can share a model and its samples in this layout; 0: any length."""
        tensor, pipeline, context = self.tensor_parallel_size, self.pipeline_parallel_size, self.context_parallel_size
        model = tensor * pipeline * context
        if self.world_size % model:
            sizes = f"tensor_parallel_size {tensor} x pipeline_parallel_size {pipeline}"
            sizes += f" x context_parallel_size {context}" if context > 1 else ""
            raise ConfigError(
                f"{number_of(self.world_size, 'device')} cannot be shared by {sizes} = {model}: use a multiple of that "
                "or smaller sizes"
            )
        shared = [
            ("tensor", tensor, "num_heads", shape.num_heads),
            ("tensor", tensor, "heads of keys and values", shape.groups),
            ("tensor", tensor, "padded vocab_size", shape.padded_vocab_size),
            ("pipeline", pipeline, "num_layers", shape.num_layers),
        ]
        if self.expert_parallel_size > 1:
            if not shape.experts:
                raise ConfigError("expert_parallel_size was given, but the model has no experts: leave it out")
            shared.append(("expert", self.expert_parallel_size, "experts", shape.experts))
            devices = self.world_size // pipeline
            if devices % self.expert_parallel_size:
                raise ConfigError(
                    f"expert_parallel_size {self.expert_parallel_size} does not divide the "
                    f"{number_of(devices, 'device')} of a pipeline stage: choose a divisor of it"
                )
        elif shape.experts and tensor > 1:
            # megatron-core 0.16 would not sum the gradients of the experts over the devices that share a layer.
            raise ConfigError(
                f"tensor_parallel_size {tensor} of a model with experts needs an expert_parallel_size of 2 or more"
            )
        for kind, size, name, total in shared:
            if total % size:
                raise ConfigError(
                    f"{kind}_parallel_size {size} does not divide the model's {name} {total}: choose a divisor of it"
                )
        if context > 1 and sequence_length % (2 * context):
            raise ConfigError(
                f"context_parallel_size {context} needs a sequence length that is a multiple of {2 * context}, not "
                f"{sequence_length}"
            )


def plan_run(model: ModelOptions, parallel: ParallelOptions, devices: int | None) -> tuple[Layout, BatchPlan]:
    """Return the layout of devices and batch; raises ConfigError if the options do not fit together.

    No number of devices stands for one process that drives all IPUs of its pipeline.
    """
    shape = model.shape
    tensor = parallel.tensor_parallel_size or shape.tensor_parallel_size
    pipeline = parallel.pipeline_parallel_size or shape.pipeline_parallel_size
    expert = parallel.expert_parallel_size or shape.expert_parallel_size
    layout = Layout(devices or tensor * pipeline, tensor, pipeline, parallel.context_parallel_size, expert)
    layout.check(shape, model.tokens_per_sample)
    micro_batch_size = parallel.micro_batch_size or shape.micro_batch_size
    one_pass = micro_batch_size * layout.data_parallel_size
    global_batch_size = parallel.global_batch_size or max(1, DEFAULT_BATCH // one_pass) * one_pass
    return layout, BatchPlan(global_batch_size, micro_batch_size, layout.data_parallel_size)
