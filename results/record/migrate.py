"""Conversion of records of older schema versions, in place, one version at a time."""

from __future__ import annotations

from collections.abc import Callable

from results.record.model import SCHEMA_VERSION, Json


def migrate(record: Json) -> bool:
    """Convert a record to this schema version; return False if its version is unknown."""
    version = record.get("schema_version")
    while isinstance(version, int) and version in MIGRATIONS:
        MIGRATIONS[version](record)
        version += 1
        record["schema_version"] = version
    return version == SCHEMA_VERSION


def _from_version_1(record: Json) -> None:
    """Add the kind of each window: version 1 had one kind."""
    windows = record.get("windows")
    for window in windows if isinstance(windows, list) else []:
        if isinstance(window, dict):
            window.setdefault("kind", "measured")


def _from_version_2(record: Json) -> None:
    """Add what a run is a repeat of: version 2 left this to the options of its two workloads."""
    layout = record.get("layout")
    if not isinstance(layout, dict):
        return

    def option(path: str) -> str:
        group, _, name = path.partition(".")
        config = record.get("config")
        options = config.get(group) if isinstance(config, dict) else None
        value = options.get(name) if isinstance(options, dict) else None
        return "" if value is None else str(value)

    if record.get("benchmark") == "llm_training" and isinstance(record.get("config"), dict):
        record["config"].setdefault("turns", {"effective": False, "rounds": 6, "cold_cache": False})
        if isinstance(record.get("provenance"), dict):
            record["provenance"].pop("config_hash", None)  # computed without these options
    tokens, pixels = layout.get("sequence_length"), layout.get("image_size")
    record["precision"] = option("model.precision") or option("compute.precision")
    record["data"] = option("data.data")
    record["sample"] = f"{pixels} pixels" if pixels else f"{tokens} tokens" if tokens else ""
    if tokens or record.get("work_unit") == "images":
        layout["work_per_sample"] = tokens or 1
    chosen = [(title, option(path), unusual) for title, path, unusual in CHOICES_OF_VERSION_2]
    record["choices"] = {title: value for title, value, _ in chosen if value}
    record["variant"] = [unusual[value] for _, value, unusual in chosen if value in unusual]


CHOICES_OF_VERSION_2: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("recomputation", "parallel.recompute", {"selective": "selective recomputation", "full": "full recomputation"}),
    ("layers of", "kernels.layers", {"transformer-engine": "TransformerEngine"}),
    ("compiled", "kernels.compile", {"layers": "compiled layers"}),
    (
        "attention",
        "kernels.attention",
        {"cudnn": "cuDNN attention", "efficient": "efficient attention", "math": "plain attention"},
    ),
    ("CUDA graph", "kernels.cuda_graph", {"True": "CUDA graph"}),
    ("XLA", "compute.xla", {"on": "XLA"}),
)
# Conversion from a version to the next, in place.
MIGRATIONS: dict[int, Callable[[Json], None]] = {1: _from_version_1, 2: _from_version_2}
