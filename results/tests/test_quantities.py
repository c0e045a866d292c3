"""Each quantity is declared once, and who shows one agrees with the catalogue."""

from __future__ import annotations

import pytest

from results.files.quantities import QUANTITIES
from results.tests import builder
from results.tests.builder import served


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
