"""Values of a record that another source states, too: its options, its workload, and the tables of figures."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from record.findings import finding
from record.model import Metrics, Record, changed, is_number
from record.parts import layout_of_copy
from record.values import value_at
from results.files.systems import SYSTEMS, peaks_in, table_file
from results.files.workloads import Facts, workloads

PEAK_USED = "peak_tflops_per_device"  # in options and metrics
NAMES = ("data", "precision", "system")  # keys that a record repeats from its options
MODEL_OPTIONS = ("size", "variant")  # the last word of a model's name
LENGTH, NOT_HASHED = "sequence_length", "run"
CLOSE = 1e-6  # relative difference of equal figures
SWITCH = {"on": True, "off": False}


Statements = Iterator[tuple[str, Any, Any, str]]  # a value's name, the value, the value by another source, the source


def statements(record: Record) -> Statements:
    """Yield each value of a record that another source also states."""
    for source in (_by_the_hash, _by_model_options, _by_options, _by_choices, _by_the_workload):
        yield from source(record)


def _groups(record: Record) -> dict[str, dict[str, Any]]:
    """Return the options of a run by group."""
    return {name: group for name, group in record.config.items() if isinstance(group, dict)}


def _by_the_hash(record: Record) -> Statements:
    yield "provenance.config_hash", value_at(record, "provenance.config_hash"), hash_of(record.config), "its config"


def hash_of(config: Mapping[str, Any]) -> str:
    """Return the hash of a run's options."""
    hashed = {name: options for name, options in config.items() if name != NOT_HASHED}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()


def _by_model_options(record: Record) -> Statements:
    chosen = _groups(record).get("model") or {}
    for option in MODEL_OPTIONS:
        if chosen.get(option) is not None:
            yield "model", record.model.rpartition(" ")[2], str(chosen[option]), f"config.model.{option}"


def _by_options(record: Record) -> Statements:
    flags, layout = _flags(record.provenance.command or []), layout_of_copy(record)
    for group, option, value in ((name, *one) for name, mine in _groups(record).items() for one in mine.items()):
        source = f"config.{group}.{option}"
        if option in flags:  # an option that is not a flag has its default, unknown here
            yield source, "null" if value is None else value, _as_used(flags[option], value), "its command line"
        if option in NAMES and value is not None:
            yield option, value_at(record, option), value, source
        elif value and option in layout:  # 0 leaves the choice to the benchmark
            yield f"layout.{option}", layout[option], value, source
        elif value and option == PEAK_USED:
            yield f"metrics.{PEAK_USED}", record.metrics.number(PEAK_USED), value, source


def _by_choices(record: Record) -> Statements:
    """A choice has the name of its option, or else the value of any; choices of a server are no options."""
    options = [(name, str(value)) for group in _groups(record).values() for name, value in group.items()]
    for title, value in record.choices.items() if options and not record.serving else ():
        values = {found for name, found in options if name == title.lower().replace(" ", "_")}
        values = values or {found for _, found in options}
        if value != "yes" and value not in values:
            yield (
                f"choices.{title}",
                value,
                " or ".join(sorted(values)) if len(values) < 3 else "no such value",
                "its config",
            )


def _by_the_workload(record: Record) -> Statements:
    facts = workloads().get(record.benchmark)
    if facts is None or facts.work_unit != record.work_unit:
        return
    sample = record.sample
    if facts.comparable:
        yield "metrics.comparable", record.metrics.comparable, sample == facts.comparable, "its sample"
    length, default = record.layout.sequence_length, next(iter(facts.flops.get(record.model) or ()), None)
    has_default_length = (_groups(record).get("model") or {}).get(LENGTH, length) is None
    if record.model in facts.flops_per_length and length and has_default_length:
        yield "sample", sample, default, "its model"


def with_todays_figures(record: Record) -> Record:
    """Return a record with the FLOPs, the peak and the parameters of today's tables, and what follows from them.

    A corrected table must not discard a measurement, and runs before and after it stay comparable. `corrected` of the
    record has a finding for each difference; a record without one is returned as it is.
    """
    metrics, factors, corrected = dict(vars(record.metrics)), [], []
    for kind, name, value in _figures(record):
        recorded, factor = metrics.get(name), 1.0
        if value and is_number(recorded) and recorded and not math.isclose(recorded, value, rel_tol=CLOSE):
            corrected.append(finding(kind, recorded=recorded, table=value))
            metrics[name], factor = value, value / recorded
        factors.append(factor)
    if not corrected:
        return record
    flops, peak, _ = factors
    for name, factor in (("tflops_per_device", flops), ("mfu", flops / peak), ("hfu", flops / peak)):
        if is_number(metrics.get(name)):
            metrics[name] *= factor
    return changed(record, metrics=Metrics.of(metrics), corrected=tuple(corrected))


def _figures(record: Record) -> Iterator[tuple[str, str, float | None]]:
    """Yield FLOPs of a unit of work, peak of a device, parameters: kind of finding, metric, and value in the tables."""
    facts = workloads().get(record.benchmark)
    flops = _flops(record, facts) if facts and facts.work_unit == record.work_unit else None
    yield "flops_corrected", f"model_flops_per_{record.work_unit[:-1]}", flops
    yield "peak_corrected", PEAK_USED, peaks().get((record.system, record.precision))
    yield "parameters_corrected", "num_parameters", facts.num_parameters.get(record.model) if facts else None


def _flops(record: Record, facts: Facts) -> float | None:
    known: Mapping[str, float] = facts.flops.get(record.model) or {}
    length = record.layout.sequence_length or 0
    per_length = facts.flops_per_length.get(record.model)
    if per_length is None or not length:
        return known.get(record.sample)
    default_sample, flops = next(iter(known.items()))
    return flops + per_length * (length - int(default_sample.split()[0]))


def _flags(command: list[Any]) -> dict[str, str]:
    """Map each option of a command line to its text; a flag without a value is on, or off with `--no-`."""
    options, words = {}, [str(word) for word in command]
    for word, following in zip_longest(words, words[1:], fillvalue="--"):
        flag, has_value, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            option = flag.replace("-", "_")
            options[option] = value if has_value else "on" if following.startswith("--") else following
            options |= {option[3:]: "off"} if option.startswith("no_") else {}
    return options


def _as_used(text: str, used: Any) -> Any:
    """Convert the text of a flag to the type of the value that was used; `auto` leaves the value to the benchmark."""
    if text == "auto" or isinstance(used, list):
        return used
    if isinstance(used, bool):
        return SWITCH.get(text, text)
    try:
        return float(text) if isinstance(used, int | float) else text
    except ValueError:
        return text


def peaks() -> dict[tuple[str, str], float]:
    """Return the peak of one device in 10^12 FLOP/s by system and precision."""
    return peaks_in(table_file(SYSTEMS))
