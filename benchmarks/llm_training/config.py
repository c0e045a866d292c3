"""Model sizes as data, and the options of a run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common.options import (
    ComputeOptions,
    ConfigError,
    RunOptions,
    TurnsOptions,
    WindowOptions,
    option,
    positive,
)

VOCAB_MULTIPLE = 128  # to pad vocabularies to, for matrix sizes that suit the hardware and divide by 2...128
GPT2_VOCAB_SIZE = 50_257

INIT_STD = 0.02  # of weights, as in GPT-2
ADAM_BETAS = (0.9, 0.95)
ADAM_EPS = 1e-8
DEFAULT_BATCH = 16
SWITCH = ("auto", "on", "off")


@dataclass(frozen=True)
class ModelSize:
    """Shape of a decoder-only GPT, with its default layout."""

    num_layers: int
    hidden_size: int
    num_heads: int
    ffn_hidden_size: int
    sequence_length: int
    vocab_size: int  # before padding
    tensor_parallel_size: int
    pipeline_parallel_size: int
    micro_batch_size: int

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads:
            raise ConfigError(
                f"hidden_size {self.hidden_size} is not a multiple of num_heads {self.num_heads}: choose a divisor"
            )

    @property
    def recorded(self) -> dict[str, int]:
        """Facts of the shape that the record of a run has, so that a tender can fix them."""
        return {name: getattr(self, name) for name in ("num_layers", "hidden_size", "num_heads", "vocab_size")}

    @property
    def padded_vocab_size(self) -> int:
        """Size of the vocabulary, padded to VOCAB_MULTIPLE."""
        return -(-self.vocab_size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE

    @property
    def num_parameters(self) -> int:
        """Number of parameters: tied embedding, and weights, biases and norms of each layer."""
        h, f = self.hidden_size, self.ffn_hidden_size
        per_layer = 4 * h * h + 2 * h * f + 4 * h + (f + h) + 4 * h
        return self.padded_vocab_size * h + self.num_layers * per_layer + 2 * h


SIZES = {
    "tiny": ModelSize(4, 256, 8, 1024, 256, 8_192, 1, 1, 4),
    "117M": ModelSize(12, 768, 12, 3072, 1024, GPT2_VOCAB_SIZE, 1, 1, 4),
    "800M": ModelSize(16, 2048, 8, 8192, 2048, GPT2_VOCAB_SIZE, 1, 1, 4),
    "13B": ModelSize(40, 5120, 32, 20480, 2048, GPT2_VOCAB_SIZE, 2, 2, 2),
    "175B": ModelSize(96, 12288, 96, 49152, 2048, GPT2_VOCAB_SIZE, 8, 8, 2),
}


@dataclass(frozen=True)
class ModelOptions:
    """Model."""

    size: str = option("tiny", "model size", choices=tuple(SIZES))
    sequence_length: int | None = option(None, "tokens per sample; default: the size's own")

    def __post_init__(self) -> None:
        positive(self, "sequence_length")

    @property
    def shape(self) -> ModelSize:
        """Shape of the model."""
        return SIZES[self.size]

    @property
    def tokens_per_sample(self) -> int:
        """Tokens of a sample."""
        return self.sequence_length or self.shape.sequence_length


@dataclass(frozen=True)
class ParallelOptions:
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
    sequence_parallel: str = option(
        "auto", "also share norms and dropout, along the sequence; auto: on GPUs with tensor parallelism", SWITCH
    )
    recompute: str = option(
        "none", "activations that the backward pass recomputes, to save memory", ("none", "selective", "full")
    )
    overlap: str = option("auto", "sum gradients and gather weights while computing; auto: on several GPUs", SWITCH)
    devices: int | None = option(None, "with --dry-run: number of devices on each node")
    nodes: int | None = option(None, "with --dry-run: number of nodes")

    def __post_init__(self) -> None:
        sizes = {name for name, value in vars(self).items() if not isinstance(value, str)}
        positive(self, *sizes)

    def is_sequence_parallel(self, on_gpu: bool, tensor_parallel_size: int) -> bool:
        """Return whether sequence parallelism is used; raises ConfigError for `on` without tensor parallelism."""
        if self.sequence_parallel == "on" and tensor_parallel_size == 1:
            raise ConfigError("--sequence-parallel on needs a --tensor-parallel-size of 2 or more")
        return tensor_parallel_size > 1 and (
            self.sequence_parallel == "on" or (self.sequence_parallel == "auto" and on_gpu)
        )

    def overlaps(self, on_gpu: bool, data_parallel_size: int) -> bool:
        """Return whether communication is overlapped with computation."""
        return self.overlap == "on" or (self.overlap == "auto" and on_gpu and data_parallel_size > 1)


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
class TrainingOptions:
    """Training."""

    learning_rate: float = option(1e-4, "highest learning rate; it decays to a tenth by a cosine")
    weight_decay: float = option(0.1, "AdamW's weight decay, on matrices only")
    gradient_clip: float = option(1.0, "largest norm of the gradient over all parameters")
    seed: int = option(1234, "seed of weights and data")

    def __post_init__(self) -> None:
        positive(self, "learning_rate", "gradient_clip")
        if self.weight_decay < 0:
            raise ConfigError(f"weight_decay must be 0 or more, got {self.weight_decay}")


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

    def __post_init__(self) -> None:
        if self.turns.effective and self.data.data == "synthetic":
            raise ConfigError("--effective compares with data on the device: add --data text, or leave it out")
        if self.turns.cold_cache:
            raise ConfigError("--cold-cache was asked for, but text is mapped into memory: leave it out")
        if self.turns.effective and self.compute.device == "ipu":
            raise ConfigError("--effective cannot time single steps on an IPU: leave it out")


@dataclass(frozen=True)
class Layout:
    """Layout of model and data on `world_size` devices."""

    world_size: int
    tensor_parallel_size: int
    pipeline_parallel_size: int

    @property
    def data_parallel_size(self) -> int:
        """Number of replicas of the model."""
        return self.world_size // (self.tensor_parallel_size * self.pipeline_parallel_size)

    def check(self, shape: ModelSize) -> None:
        """Raise ConfigError unless the devices can share a model in this layout."""
        tensor, pipeline = self.tensor_parallel_size, self.pipeline_parallel_size
        if self.world_size % (tensor * pipeline):
            raise ConfigError(
                f"{self.world_size} devices cannot be shared by tensor_parallel_size {tensor} x "
                f"pipeline_parallel_size {pipeline} = {tensor * pipeline}: use a multiple of that, or smaller sizes"
            )
        for name, total in (("num_heads", shape.num_heads), ("padded vocab_size", shape.padded_vocab_size)):
            if total % tensor:
                raise ConfigError(
                    f"tensor_parallel_size {tensor} does not divide the model's {name} {total}: choose a divisor of it"
                )
        if shape.num_layers % pipeline:
            raise ConfigError(
                f"pipeline_parallel_size {pipeline} does not divide the model's num_layers {shape.num_layers}: "
                "choose a divisor of it"
            )
