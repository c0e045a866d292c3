"""What is doubtful is said once, however often it was found."""

from __future__ import annotations

from results.show.words import merged
from results.tests import builder
from results.tests.of_dicts import by_point, limits


def details(*arguments):
    return [words for cases in limits(*arguments, None).values() for words in cases]


def test_what_differs_in_numbers_alone_is_said_once_with_how_often():
    found = merged(["a/000001.json is cut", "a/000002.json is cut", "b is gone", "a/000003.json is cut"])
    assert found == ["a/000001.json is cut (and 2 more with other numbers)", "b is gone"]


def test_failures_of_one_kind_are_one_line_with_their_places():
    bad = [builder.failed("A", devices, 64, error=f"node n{devices} burned") for devices in (1, 2, 4, 8)]
    bad.append(builder.failed("B", 1, 8, status="out_of_memory", error=""))
    burned, memory = details([*bad, builder.result()], [], [])
    assert burned.startswith("failed: node n1 burned (4 points, such as A, tiny, 1 device, batch 64; ")
    assert burned.endswith("; elsewhere with other numbers)")
    assert memory == "out of memory: no reason recorded (B, tiny, 1 device, batch 8)"


def test_deviations_of_one_kind_are_one_line():
    records = [builder.result("A", 1, batch) for batch in (8, 16, 32)]
    for record in records:
        record["provenance"]["git_dirty"] = True
    lines = details([], [], [("GPT", by_point(records))])
    assert len(lines) == 2
    assert any(line.startswith("the code had local changes (3 points: ") for line in lines)
    assert any(line.startswith("1 run, 3 wanted (3 points: ") for line in lines)


def test_points_of_other_models_data_and_options_are_others():
    known = builder.result()
    records = [known, known | {"model": "800M"}, known | {"data": "synthetic"}, known | {"precision": "fp8"}, known]
    [found] = (words for words in details([], [], [("GPT", by_point(records))]) if "wanted" in words)
    assert "(4 points: " in found
    assert found.endswith("; elsewhere with other numbers)")
