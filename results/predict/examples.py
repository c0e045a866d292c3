"""Experimental: published points of training as examples for a datasheet, each with its source and device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from results.files.csv_rows import csv_rows
from results.predict.datasheet import Example, Hardware
from results.predict.step_work import Layout, Shape, decoder_work
from results.record.records import RecordError
from results.reference.published import throughputs

FOLDER = Path(__file__).parents[1] / "reference"
TRAINING, ACCELERATORS = FOLDER / "training.csv", FOLDER / "accelerators.csv"
CARAML = "CARAML"
# CARAML's GPT-800M, which was trained with micro batches of 4 and full recomputation.
GPT_800M = Shape(16, 2048, 8192, 50304, 2048, 0.91e9)
DEVICES_PER_NODE = {"JURECA-MI200": 8}  # CARAML's other systems have 4
FINE_TUNING = ("LoRA", "SFT")  # has a different amount of work


@cache
def examples(benchmark: str) -> tuple[Example, ...]:
    """Return a workload's examples; empty for fewer than two sources, as no interval could be validated."""
    return (*read_training(TRAINING), *_caraml_gpt()) if benchmark == "llm_training" else ()


@cache
def accelerators() -> Mapping[str, Mapping[str, str]]:
    """Return the datasheets of all devices with published points, by name."""
    return {row["name"]: row for row in csv_rows(ACCELERATORS)}


def kernels(precision: str) -> str:
    """Return fp4, fp8 or 16bit, with the same kernels in all recipes (MXFP8, amp_bf16), else the precision itself."""
    parts = {"fp4": "fp4", "fp8": "fp8", "16": "16bit"}
    return next((kind for part, kind in parts.items() if part in precision.lower()), precision)


def hardware(name: str, precision: str, devices_per_node: int) -> Hardware:
    """Return a device in a precision such as bf16, amp_fp8 or NVFP4.

    Raises RecordError unless the file has exactly this device, with a peak in this precision: variants of a device
    differ in power limit and memory, so none replaces another.
    """
    known = accelerators()
    row = known.get(name) or known.get(name.lower())
    if row is None:
        raise RecordError(
            f"device {name!r} was asked for, but {ACCELERATORS} has only {', '.join(known)}: add a row of its datasheet"
        )
    kind = kernels(precision)
    peak = float(row.get(f"peak_tflops_{kind}") or 0)
    if not peak:
        raise RecordError(
            f"precision {precision!r} was asked for, but {ACCELERATORS} has no peak of {name} in it: add it from the "
            "datasheet, or choose another precision"
        )
    return Hardware(
        row["name"],
        1e12 * peak,
        1e9 * float(row["memory_gb_per_s"]),
        1e9 * float(row["link_gb_per_s"]),
        1e9 * float(row["network_gb_per_s"]),
        devices_per_node,
        float(row["tdp_w"]),
        kind,
    )


def read_training(path: Path) -> list[Example]:
    """Return the dense decoders trained from scratch, from a file of the form of training.csv.

    Raises RecordError for a file that is not of this form.
    """
    try:
        rows = [row for row in csv_rows(path) if row["layers"] and row["tokens_s_gpu"]]
        return [_example(row) for row in rows if not _is_fine_tuning(row)]
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise RecordError(f"{path} is not a file of the form of {TRAINING}: {error!r}") from error


def _is_fine_tuning(row: Mapping[str, str]) -> bool:
    return any(word in row["section"] for word in FINE_TUNING)


def _example(row: Mapping[str, str]) -> Example:
    def number(name: str, missing: int = 1) -> int:
        text = row[name]
        return int(float(text)) if text and text != "n/a" else missing

    devices, sequence_length = number("gpus"), number("seq")
    copies = max(1, devices // (number("tp") * number("pp")))
    batch = number("gbs", copies * number("mbs"))
    shape = Shape(
        number("layers"),
        number("hidden"),
        number("ffn"),
        number("vocab"),
        sequence_length,
        float(row["params_total"]),
        "llama" in row["model"].lower(),
        number("kv_heads", number("heads")) / number("heads"),
    )
    gathers = row["fsdp"] == "FULL_SHARD" or (row["fsdp"].isdigit() and int(row["fsdp"]) > 1)
    layout = Layout(
        devices,
        batch,
        number("mbs"),
        number("tp"),
        number("pp"),
        number("vp"),
        gathers,
        row["recompute"] == "full",
    )
    return Example(
        row["source"].partition("@")[0],
        hardware(row["gpu"], row["precision"], number("gpus_per_node")),
        devices,
        decoder_work(shape, layout),
        batch * sequence_length / (float(row["tokens_s_gpu"]) * devices),
    )


def _caraml_gpt() -> Iterator[Example]:
    for one in throughputs("llm_training", "800M"):
        if one.system in accelerators():
            work = decoder_work(GPT_800M, Layout(one.devices, one.global_batch, 4, recompute=True))
            device = hardware(one.system, "fp16", DEVICES_PER_NODE.get(one.system, 4))
            step_s = one.global_batch * GPT_800M.sequence_length / one.units_per_s
            yield Example(CARAML, device, one.devices, work, step_s)
