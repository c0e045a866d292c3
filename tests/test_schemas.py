"""JSON schemas of the files that people write: those that are shipped are those of the dataclasses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import fastjsonschema
import pytest

from results.files.yaml_files import read_yaml
from scripts.schemas import file_of, schemas

REPOSITORY = Path(__file__).resolve().parents[1]
SCHEMAS = schemas()


def paths(pattern: str) -> list[str]:
    return sorted(str(one.relative_to(REPOSITORY)) for one in REPOSITORY.glob(pattern))


FILES = {
    "requirements": [
        "requirements.example.yaml",
        *(f"tenders/{one.name}" for one in REPOSITORY.glob("tenders/*.yaml")),
    ],
    "pledge": ["pledge.example.yaml"],
    "prices": ["prices.example.yaml"],
    "system_power": ["system_power.example.yaml"],
    "site": ["site.example.yaml"],
    "images": ["containers/images.yaml"],
    "workload": paths("benchmarks/*/workload.yaml"),
    "systems": ["jube/include/systems.yaml"],
    "refused": ["jube/include/refused.yaml"],
}
PLACE = {"of": "gpt", "devices": 8}
POINT = PLACE | {"throughput": 1}
BAD = {
    "requirements": [{"workloads": {}}, {"musts": []}, {"budget": {"devices": 0}}, {"must": [{"of": "gpt"}]}],
    "pledge": [
        {"price": 1},
        {"devices": 0},
        {"points": []},
        {"points": [POINT | {"mfu": 2}]},
        {"points": [{"of": "gpt", "devices": 8}]},
    ],
    "prices": [{"pue": 120}, {"systems": {}}, {"systems": {"A": {}}}, {"currency": 5}],
    "system_power": [{"cooling": "water"}, {"node_sets": []}, {"scale_out": {"cabling": "copper"}}],
    "site": [{"submit": "basch"}, {"acount": "me"}, {"modules": "GCC"}, {"systems": {"CPU": {"acount": "me"}}}],
    "images": [{"a": {"base": "b", "arch": "c", "bsae": "d"}}, {"a": {"base": "b"}}],
    "workload": [{"framework": "jax"}, {"costed": {"amount": 1}}, {"titel": "x"}],
    "systems": [
        {"parameterset": [{"name": "system", "tag": "A", "parameter": [one]}]}
        for one in (
            {"name": "vendro", "_": "amd"},
            {"name": "vendor", "_": "intel"},
            {"name": "devices_per_node", "_": 0},
        )
    ],
    "refused": [{"X": ["no"]}, {"X": ""}],
    "known": [{"known": [{}]}, {"known": [{"first_run": "2024-07-01", "where": "here"}]}, {"known": 3}],
}


def test_the_shipped_schemas_are_those_of_the_dataclasses():
    shipped = {path.name: json.loads(path.read_text()) for path in (REPOSITORY / "schemas").iterdir()}
    assert shipped == {file_of(name).name: schema for name, schema in SCHEMAS.items()}, "python scripts/schemas.py"


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, files in FILES.items() for file in files])
def test_a_schema_allows_the_files_of_the_suite_and_their_first_line_names_it(name, file):
    fastjsonschema.compile(SCHEMAS[name])(read_yaml(REPOSITORY / file))
    found = re.match(r"# yaml-language-server: \$schema=(\S+)\n", (REPOSITORY / file).read_text())
    assert found and (REPOSITORY / file).parent.joinpath(found[1]).resolve() == file_of(name)


@pytest.mark.parametrize(("name", "change"), [(name, change) for name, changes in BAD.items() for change in changes])
def test_a_schema_refuses_what_the_reader_refuses(name, change):
    validate = fastjsonschema.compile(SCHEMAS[name])
    whole = read_yaml(REPOSITORY / FILES[name][0]) if name in FILES else {}
    with pytest.raises(fastjsonschema.JsonSchemaException):
        validate(whole | change)
