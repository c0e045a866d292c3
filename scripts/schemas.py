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
from results.history.judge import KnownChanges  # noqa: E402
from results.json_schema import schema_of_file  # noqa: E402
from results.systems import systems_schema  # noqa: E402
from results.typed_files import Text  # noqa: E402
from results.verdicts.cost import Costs  # noqa: E402
from results.verdicts.requirements import Requirements  # noqa: E402
from results.verdicts.tender.pledge import Pledge  # noqa: E402
from results.workloads import Facts  # noqa: E402


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind of file by its name."""
    site = schema_of_file(SiteFile, "Settings of a site: site.yaml", as_text=True)
    of_systems = {"type": ["object", "null"], "additionalProperties": {"$ref": "#"}}  # the same keys for one system
    return {
        "requirements": schema_of_file(Requirements, "Requirements, for `caraml accept --requirements`"),
        "pledge": schema_of_file(Pledge, "Pledge of a vendor, for `caraml accept --pledge`"),
        "prices": schema_of_file(Costs, "Prices, for `caraml report --prices`"),
        "known": schema_of_file(KnownChanges, "Acknowledged changes, for `caraml history check --known`"),
        "site": site | {"properties": site["properties"] | {"systems": of_systems}},
        "images": schema_of_file(Mapping[str, Image], "Container images: containers/images.yaml"),
        "workload": schema_of_file(Facts, "Facts on a workload: benchmarks/NAME/workload.yaml", as_text=True),
        "systems": systems_schema("Systems: jube/include/systems.yaml"),
        "refused": schema_of_file(Mapping[str, Text], "Refused systems: jube/include/refused.yaml", as_text=True),
    }


def file_of(name: str) -> Path:
    """Return the place of a schema."""
    return REPOSITORY / "schemas" / f"{name}.schema.json"


if __name__ == "__main__":
    for name, schema in schemas().items():
        file_of(name).write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
