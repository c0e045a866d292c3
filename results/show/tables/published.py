"""Published figures as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from results.files.quantities import Quantity
from results.find.records import RecordError
from results.published import Figure
from results.show.tables.cells import Table, rendered


def published_text(figures: Iterable[Figure], words: Sequence[str]) -> str:
    """Return the figures that have all these words, a table for each benchmark, and their sources below.

    Raises RecordError without any.
    """
    chosen = [
        one for one in figures if all(any(word.lower() in field.lower() for field in _searched(one)) for word in words)
    ]
    if not chosen:
        raise RecordError(f"no published figure has {' and '.join(words)}: 'caraml published' without words shows all")
    sources = {source: index for index, source in enumerate(dict.fromkeys(one.source for one in chosen), 1)}
    # A single table would be as wide as the longest name of any benchmark.
    benchmarks = list(dict.fromkeys(one.benchmark for one in chosen))
    parts = []
    for benchmark in benchmarks:
        title = [f"{benchmark}:"] if len(benchmarks) > 1 else []
        parts.append("\n".join([*title, _table([one for one in chosen if one.benchmark == benchmark], sources)]))
    return "\n".join(["\n\n".join(parts), *(f"[{index}] {source}" for source, index in sources.items())])


def _searched(figure: Figure) -> tuple[str, ...]:
    return figure[: Figure._fields.index("source")]


def _table(figures: Sequence[Figure], sources: Mapping[str, int]) -> str:
    titles = ["system", "accelerator", "model", "data", "precision", "devices", "batch", "metric", "value", "unit"]
    rows = [
        [
            *(one.system, one.accelerator, one.model, one.data, one.precision, one.devices, one.global_batch_size),
            *(one.metric, one.value, one.unit, f"[{sources[one.source]}]"),
        ]
        for one in figures
    ]
    return rendered(Table([*map(Quantity, titles), Quantity("source")], rows).filled(), "text")
