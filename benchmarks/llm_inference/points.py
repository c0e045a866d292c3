"""Points of this workload's sweep.

Any number of devices that hold the weights and the cache of a request can serve any number of requests in flight: those
without a place in the cache wait in the server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from benchmarks.common.options import ConfigError
from benchmarks.llm_inference.models import CONTEXT, SHAPES, Shape
from jpwr.messages import number_of

BYTES_OF_WEIGHT = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
USABLE = 0.9  # of a device's memory, by default in vLLM and TensorRT-LLM; activations take the rest
HALF_BYTES = 2  # of a number of the cache, also for weights in fp8
LONGEST = {"8k1k": 8192 + 1024, "agentic": CONTEXT}  # tokens of a request, by tag of the workflow
OTHERS = {"--model-path", "--url", "xllamacpp"}  # words with which the model is another one, or is not on GPUs
GB = 1e9


def check_point(model: str, num_devices: int, global_batch_size: int, **layout: int | None) -> None:
    """Raise ConfigError unless the model's heads can be shared by so many devices."""
    shape = SHAPES.get(model)
    if shape and shape.kv_heads % num_devices:
        raise ConfigError(f"{num_devices} devices cannot share the {shape.kv_heads} key-value heads of {model}")


def weights_bytes(shape: Shape, precision: str, tables: int = 2) -> int:
    """Return the bytes of a model's weights with so many of its tables of the vocabulary: of its input, and its output.

    Quantisation leaves out the tables.
    """
    each, table = BYTES_OF_WEIGHT[precision], shape.vocab * shape.hidden
    return (shape.parameters - 2 * table) * each + tables * table * max(each, HALF_BYTES)


def cache_token_bytes(shape: Shape) -> int:
    """Return the bytes of the keys and values of a token."""
    return shape.layers * 2 * shape.kv_heads * shape.head * HALF_BYTES


def decode_bytes(model: str, precision: str) -> dict[str, int]:
    """Return the bytes of weights that a step of decode reads, without the input's table, and of a token's cache."""
    shape = SHAPES[model]
    return {"step_weights_bytes": weights_bytes(shape, precision, 1), "token_cache_bytes": cache_token_bytes(shape)}


def least_devices(value: Callable[[str], str], model: str, words: Collection[str]) -> int:
    """Return how many devices hold the weights of a model and the cache of a request, the least a server starts with.

    `words` are the run's tags and the site's flags. Raises ConfigError if no number of devices of a node does.
    """
    usable_gb, per_node = USABLE * float(value("memory_gb_per_device")), int(value("devices_per_node"))
    if not usable_gb or value("vendor") not in ("nvidia", "amd") or OTHERS & {word.partition("=")[0] for word in words}:
        return 1
    shape = SHAPES[model]
    weights = weights_bytes(shape, value("default_precision"))
    asked = int(value("input_tokens")) + int(value("output_tokens"))
    tokens = max(asked, *(LONGEST.get(word, 0) for word in words), 0)
    needed_gb = (weights + tokens * cache_token_bytes(shape)) / GB
    fitting = [number for number in range(1, per_node + 1) if shape.kv_heads % number == 0]
    for number in fitting:
        if number * usable_gb >= needed_gb:
            return number
    raise ConfigError(
        f"its weights and the cache of a request take {needed_gb:.1f} GB, and {number_of(fitting[-1], 'device')} of a "
        f"node can hold {fitting[-1] * usable_gb:.1f} GB: choose a smaller model or a lower precision"
    )
