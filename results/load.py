"""One set of records, for every command and for notebooks: found, judged, metered, with shares of what is possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from record.findings import finding
from record.part import changed
from record.values import rounded, value_at
from results.files.quantities import QUANTITIES, only_match
from results.files.systems import system_of
from results.find.records import Found, Record, RecordError, Skipped, find_records
from results.join.meter import read_meter, with_meter
from results.points.learning import REFERENCES, learnt_of, read_references
from results.published import ACHIEVABLE, published
from results.verdicts.cost import Costs, provisioned_sources, with_provisioned
from results.verdicts.nodes import MATMUL, NODE_CHECK, is_check, medians

MOST_REASONS = 3  # in one sentence
NO_RESULT = "no result below {} can be used"
VARYING = ("length_sigma", "lengths_file", "trace")  # options of lengths that differ: the mean context is unknown


class Loaded(NamedTuple):
    """Records of some folders, the files that were skipped, and what a reader has to know about both."""

    records: list[Record]
    skipped: list[Skipped]
    notes: list[str]  # runs without the energy of a meter
    sources: list[str]  # of achievable FLOP/s, and of provisioned power
    tags: Mapping[str, str]  # of systems that are in several offers, by their new names


def load(
    folders: Sequence[Path],
    conditions: Sequence[str] = (),
    meters: Sequence[Path] = (),
    references: Sequence[Path] = (),
    checks: Sequence[Path] = (),
    offers: Mapping[Path, str] | None = None,
    costs: Costs | None = None,
    why_empty: Callable[[Path], str] = NO_RESULT.format,
) -> Loaded:
    """Return the records in some folders that meet conditions such as `devices=4`.

    meters: files of meters in the supply line, whose energy goes first. references: a site's files of losses, which
    count where the suite has none. checks: folders of node checks, next to those among the records. offers: names of
    folders; a system that is in several is a system in each. why_empty: says why a folder has no result.

    Raises RecordError without a record, and for a meter, reference, check or condition that cannot be used.
    """
    found = find(folders, why_empty)
    records, sources = with_achievable(derived(found.records, references), good_checks(checks))
    found.records[:] = records
    tags = split_offers(found, offers) if offers else {}
    records, notes = select(found.records, conditions), []
    for path in meters:
        records, without = with_meter(records, read_meter(path))
        notes += without
    tagged = [(record, tags.get(record.system, record.system)) for record in records]
    records = [with_bandwidth(with_provisioned(record, costs, tag), tag) for record, tag in tagged]
    return Loaded(records, found.skipped, notes, [*sources, *provisioned_sources(records)], tags)


def find(folders: Sequence[Path], why_empty: Callable[[Path], str] = NO_RESULT.format) -> Found:
    """Return the records in some folders as they were written; raises RecordError without one."""
    found = find_records(folders)
    empty = [Skipped(finding("unusable", reason=why_empty(path)), path) for path in folders if not found.has_any(path)]
    if len(empty) == len(folders):
        raise RecordError("; ".join(map(str, empty)))
    found.skipped.extend(empty)
    if not found.records:
        reasons = "; ".join(map(str, found.skipped[:MOST_REASONS]))
        raise RecordError(f"{NO_RESULT.format(', '.join(map(str, folders)))}: {reasons}")
    return found


def derived(records: Sequence[Record], references: Sequence[Path] = ()) -> list[Record]:
    """Return records with what their losses show."""
    known = read_references(REFERENCES, *references)
    verdicts = ((record, learnt_of(record, known)) for record in records)
    return [changed(record, learnt=learnt) if learnt else record for record, learnt in verdicts]


def with_achievable(records: Sequence[Record], checks: Iterable[Record] = ()) -> tuple[list[Record], list[str]]:
    """Return records with `metrics.achievable_percent` where the achievable FLOP/s are known, and the sources of these.

    They are those of the fastest dense product of matrices on one device. `checks` are node checks; those among the
    records count, too. A system without one has the published figure.
    """
    known = published_rates()
    good = [record for record in (*records, *checks) if is_check(record)]
    for kind, tflops in sorted(medians(good).items(), key=itemgetter(1)):  # of several sizes, the fastest
        known[kind.system, kind.name.removeprefix(MATMUL)] = tflops, "its node check"
    found, sources = [], dict[str, None]()
    for record in records:
        tflops, source = known.get((record.system, record.precision), (0.0, ""))
        rate = record.metrics.number("tflops_per_device")
        if tflops and record.is_good and record.benchmark != NODE_CHECK and rate is not None:
            record = changed(record, metrics=changed(record.metrics, achievable_percent=100 * rate / tflops))
            place = f"achievable on {record.system} in {record.precision}"
            sources[f"{place}: {rounded(tflops)} TFLOP/s, from {source}"] = None
        found.append(record)
    return found, list(sources)


def published_rates() -> dict[tuple[str, str], tuple[float, str]]:
    """Return the published figures by system and precision: 10^12 FLOP/s, and who measured them."""
    return {
        (system, figure.precision): (float(figure.value), figure.source)
        for figure in published()
        if figure.metric == ACHIEVABLE
        for system in figure.systems.split()
    }


def with_bandwidth(record: Record, tag: str) -> Record:
    """Return a record with `metrics.memory_bandwidth_percent` where it can be computed; `tag` is that of its system.

    That is the bytes of weights and cache that decode reads per second, in percent of the bandwidth of all devices. A
    step reads the weights once and gives each request a token, which reads the cache of its prompt and, in the mean, of
    half of its answer: as model bandwidth utilisation (Databricks, LLM inference performance engineering, 2023).
    """
    block, load = system_of(tag), record.config.get("load", {})
    is_alike = record.serving and not record.serving.speculation and not any(map(load.get, VARYING))
    if not (block and block.memory_gb_per_s_per_device and record.is_good and is_alike):
        return record
    names = ("step_weights_bytes", "token_cache_bytes", "tpot_p50_s", "measured_s", "measured_tokens", "input_tokens")
    known = [record.metrics.number(name) for name in (*names, "output_tokens_per_request")]
    if not record.layout.num_devices or not all(known):
        return record
    weights, cache, tpot_s, measured_s, tokens, inputs, answer = (value or 0.0 for value in known)
    context = inputs / tokens * answer + answer / 2
    read_per_s = weights / tpot_s + tokens / measured_s * cache * context
    percent = 100 * read_per_s / (record.layout.num_devices * block.memory_gb_per_s_per_device * 1e9)
    return changed(record, metrics=changed(record.metrics, memory_bandwidth_percent=percent))


def names_of_offers(texts: Sequence[str], folders: Sequence[Path]) -> dict[Path, str]:
    """Return the name of each folder's offer from texts such as `NAME=FOLDER`; by default the folder is the name.

    Raises RecordError for a text of another form, and for a folder that is not among those given.
    """
    names = {folder: str(folder) for folder in folders}
    for text in texts:
        name, _, folder = text.partition("=")
        if not name or Path(folder) not in names:
            raise RecordError(
                f"--offer {text}: write NAME=FOLDER, where FOLDER is one of {', '.join(map(str, folders))}"
            )
        names[Path(folder)] = name
    return names


def split_offers(found: Found, names: Mapping[Path, str]) -> dict[str, str]:
    """Rename a system that is in several offers to `TAG (OFFER)` in each; return the tags by new name.

    A tag whose folders share no benchmark is one offer in several folders.
    """

    def offered(tag: str, path: Path) -> str:
        return f"{tag} ({next((name for folder, name in names.items() if path.is_relative_to(folder)), '')})"

    offers: dict[tuple[str, str], set[str]] = {}
    for record in found.records:
        name = offered(record.system, Path(record.file.path))
        offers.setdefault((record.system, record.benchmark), set()).add(name)
    split = {tag for (tag, _), several in offers.items() if len(several) > 1}
    tags = {}
    for index, record in enumerate(found.records):
        if record.system in split:
            name = offered(record.system, Path(record.file.path))
            found.records[index] = changed(record, system=name)
            tags[name] = record.system
    for index, one in enumerate(found.skipped):
        if one.systems:
            renamed = (offered(tag, one.path) if tag in split else tag for tag in one.systems)
            found.skipped[index] = one._replace(systems=tuple(renamed))
    return tags


def below(folder: Path, records: Sequence[Record]) -> list[Record]:
    """Return the records of a folder."""
    return [record for record in records if Path(record.file.path).is_relative_to(folder)]


def good_checks(folders: Sequence[Path]) -> list[Record]:
    """Return the good node checks in some folders; raises RecordError for folders without one."""
    checks = [record for record in find(folders).records if is_check(record)] if folders else []
    if folders and not checks:
        raise RecordError(f"{folders[0]} has no good node check: give a result of jube/node_check.yaml")
    return checks


def select(records: Sequence[Record], conditions: Sequence[str]) -> list[Record]:
    """Return the records that meet conditions such as `devices=2`; raises RecordError if none does."""
    chosen, units = list(records), {record.work_unit for record in records}
    names: dict[str, list[str]] = {}
    for name, quantity in QUANTITIES.items():
        if path := quantity.path:
            names.setdefault(path, []).extend([name, path, *(quantity.of(unit).heading for unit in units)])
    for condition in conditions:
        title, sign, wanted = condition.partition("=")
        if not sign:
            raise RecordError(f"{condition!r} is not a condition: write COLUMN=TEXT, such as devices=2")
        path = only_match(title.strip(), names)
        chosen = [record for record in chosen if wanted.strip() in _texts(value_at(record, path), path)]
    if not chosen:
        raise RecordError(f"no record matches {' and '.join(conditions)}: see the table without --filter")
    return chosen


def _texts(value: Any, path: str) -> set[str]:
    """Return the value at a path as text, in each form in which a reader may have seen it."""
    if isinstance(value, bool):
        return {str(value), "yes" if value else "NO"}
    if isinstance(value, int | float):
        return {str(value), *(format(value, one.form) for one in QUANTITIES.values() if one.path == path)}
    return {", ".join(value) if isinstance(value, list | tuple) else "" if value is None else str(value)}
