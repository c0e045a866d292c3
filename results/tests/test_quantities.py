"""Each quantity is declared once, and who shows one agrees with the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from results.files.quantities import QUANTITIES
from results.files.workloads import workloads
from results.tests import builder
from results.tests.builder import served

JUBE = Path(__file__).parents[2] / "jube"
# A key of a record that a pattern of JUBE reads, and the block that it is in.
READ = re.compile(r'(?:\$\{in_(?P<block>\w+)\}|\^ {1,2})"(?P<key>[^"]+)"')
UNITS = {facts.work_unit for facts in workloads().values()}


def columns_of_jube() -> list:
    """Columns that read a key of a record: the end of its path, and the column."""
    sets = yaml.safe_load((JUBE / "include" / "figures.yaml").read_text())["patternset"]
    read = {one["name"]: READ.match(one["_"]) for patterns in sets for one in patterns["pattern"]}
    tables = {path.stem: yaml.safe_load(path.read_text())["result"]["table"] for path in sorted(JUBE.glob("*.yaml"))}
    return [
        pytest.param(".".join(filter(None, found.groups())), column, id=f"{name}: {column['title']}")
        for name, table in tables.items()
        for column in table["column"]
        if (found := read.get(column["_"].removesuffix("_avg")))
    ]


@pytest.mark.parametrize(("key", "column"), columns_of_jube())
def test_a_column_of_jube_has_the_title_and_the_digits_of_its_quantity(key, column):
    same = {
        (one.of(unit).heading, one.form)
        for one in QUANTITIES.values()
        for unit in UNITS
        if f".{one.path}".replace("{unit}", unit).endswith(f".{key}".replace("${work_unit}", unit))
    }
    assert (column["title"], column.get("format", "")) in same


def test_a_title_and_a_name_in_requirements_occur_once():
    titles = [(one.heading, one.path) for one in QUANTITIES.values()]
    required = [one.required_as for one in QUANTITIES.values() if one.required_as]
    assert len(set(titles)) == len(titles)
    assert len(set(required)) == len(required)
    assert {one.better for one in QUANTITIES.values()} == {"", "more", "less"}


@pytest.mark.parametrize("record", [served(), builder.result()], ids=["server", "training"])
def test_paths_are_those_of_records(record):
    known = {f"{block}.{key}" for block in ("metrics", "energy", "layout") for key in record[block]}
    assert len(known & {one.path.replace("{unit}", record["work_unit"]) for one in QUANTITIES.values()}) > 8
