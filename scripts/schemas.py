"""JSON schemas of the files that people write, made of the dataclasses that read them: editors complete by them.

Usage: schemas.py        (writes schemas/*.json)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from caraml.machine.images import Image  # noqa: E402
from caraml.plan.site import SiteFile  # noqa: E402
from results.files.json_schema import Schema, schema_of  # noqa: E402
from results.files.system_power import SystemPower  # noqa: E402
from results.files.systems import COMMANDS, KEYS, System, known_keys  # noqa: E402
from results.files.typed_files import Text  # noqa: E402
from results.files.workloads import Facts  # noqa: E402
from results.verdicts.cost import Costs  # noqa: E402
from results.verdicts.requirements import Requirements  # noqa: E402
from results.verdicts.tender.pledge import Pledge  # noqa: E402


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind of file by its name."""
    site = schema_of_file(SiteFile, "Settings of a site: site.yaml", as_text=True)
    of_systems = {"type": ["object", "null"], "additionalProperties": {"$ref": "#"}}  # the same keys for one system
    return {
        "requirements": schema_of_file(Requirements, "Requirements, for `caraml accept --requirements`"),
        "pledge": schema_of_file(Pledge, "Pledge of a vendor, for `caraml accept --pledge`"),
        "prices": schema_of_file(Costs, "Prices, for `caraml report --prices`"),
        "system_power": schema_of_file(SystemPower, "Provisioned power, for `caraml system-power`"),
        "site": site | {"properties": site["properties"] | {"systems": of_systems}},
        "images": schema_of_file(Mapping[str, Image], "Container images: containers/images.yaml"),
        "workload": schema_of_file(Facts, "Facts on a workload: benchmarks/NAME/workload.yaml", as_text=True),
        "systems": systems_schema("Systems: jube/include/systems.yaml"),
        "refused": schema_of_file(Mapping[str, Text], "Refused systems: jube/include/refused.yaml", as_text=True),
    }


def schema_of_file(kind: Any, title: str, as_text: bool = False) -> Schema:
    """Return the schema of a file that people write: without further keys, and without null.

    as_text: a text may be written without quotes, whatever it looks like, and null leaves a key out.
    """
    return _as_written(schema_of(kind, title), as_text)  # type: ignore[no-any-return]


def _as_written(part: Any, as_text: bool) -> Any:
    if isinstance(part, list):
        return [_as_written(one, as_text) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: _as_written(value, as_text) for key, value in part.items()}
    kind = found.get("type")
    if as_text and kind == "string":
        found["type"] = ["string", "number", "boolean", "null"]
    elif as_text and kind in ("array", "object") and "$schema" not in found:
        found["type"] = [kind, "null"]
    elif isinstance(kind, list) and not as_text:
        kinds = [one for one in kind if one != "null"]
        found["type"] = kinds if len(kinds) > 1 else kinds[0]
    return {**found, "additionalProperties": False} if "properties" in found and kind == "object" else found


def systems_schema(title: str) -> Schema:
    """Return the JSON schema of the file, in which JUBE has a parameter for each key."""
    whole = schema_of_file(System, title, as_text=True)
    text = {"type": ["string", "number"]}
    others = dict.fromkeys([*COMMANDS, *(name for name in known_keys() if name not in KEYS)], text)
    parameters = [
        {"properties": {"name": {"const": key}, "_": kind}, "required": ["name", "_"]}
        for key, kind in (whole["properties"] | others).items()
    ]
    block = {
        "type": "object",
        "required": ["name", "tag", "parameter"],
        "properties": {
            "name": {"const": "system"},
            "tag": text,
            "parameter": {"type": "array", "items": {"anyOf": parameters}},
        },
    }
    blocks = {"parameterset": {"type": "array", "items": block}}
    return {"$schema": whole["$schema"], "title": title, "type": "object", "properties": blocks}


def file_of(name: str) -> Path:
    """Return the place of a schema."""
    return REPOSITORY / "schemas" / f"{name}.schema.json"


if __name__ == "__main__":
    for name, schema in schemas().items():
        file_of(name).write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
