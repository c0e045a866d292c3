"""Output of the commands for a stored set of runs of each shape, which `stored/README.md` describes."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import os
import re
from pathlib import Path

import pytest

from caraml.cli import main
from results.find.records import find_records
from results.tests.builder import SHAPES, job, training, write_served

STORED = Path(__file__).with_name("stored")
RUNS, NEEDS, PRICES = STORED / "runs", STORED / "requirements.yaml", STORED / "prices.yaml"
COMMANDS = {
    "table.txt": ["table", RUNS, "--all", "--format", "csv"],
    "repeats.txt": ["table", RUNS, "--repeats", "--format", "csv"],
    "accept.json": ["accept", RUNS, "--requirements", NEEDS, "--json"],
    "compare.json": ["compare", RUNS / "A100", RUNS / "H200", "--json"],
}


def make(folder: Path) -> None:
    """Write a run of each shape on one system, and on a second one what both are compared by."""
    for system, factor in (("A100", 1.0), ("H200", 2.5)):
        for batch in (64, 256):
            for repeat in range(3):
                speed = 20e3 * factor * (batch / 64) ** 0.1 * (1 + 0.004 * repeat)
                record = training(f"{system} {batch} {repeat}", speed, system=system, batch=batch)
                job(folder / system / f"training_{batch}_{repeat}", record)
        for repeat in range(3):
            requests = 400 + 10 * repeat + (5 if system == "H200" else 0)
            write_served(folder / system / f"served_{repeat}", f"served {system} {repeat}", requests, system)
    for shape in SHAPES.keys() - {"training", "served"}:
        SHAPES[shape](folder / "A100" / shape, shape)


class Text(html.parser.HTMLParser):
    """Lines of a page, without scripts, styles and pictures."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag in ("script", "style", "svg"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data):
        if not self.inside and (line := " ".join(data.split())):
            self.lines.append(line)


def one_value_a_line(text: str) -> str:
    """Return a CSV with a line for each value, so that a column that comes or goes changes its own lines alone."""
    rows = csv.DictReader(io.StringIO(text))
    return "".join(f"{number}: {key} = {value}\n" for number, row in enumerate(rows) for key, value in row.items())


def check(name: str, text: str) -> None:
    """Compare with the stored text, or store it."""
    place = STORED / "printed" / name
    text = re.sub(r"-?\d+\.\d{10,}(e-?\d+)?", lambda number: f"{float(number[0]):.9g}", text.replace(f"{STORED}/", ""))
    if os.environ.get("UPDATE_STORED"):
        place.write_text(text)
    assert text.splitlines() == place.read_text().splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_what_it_printed(name, capsys):
    assert main([str(word) for word in COMMANDS[name]]) in (0, 1, 3)
    text = capsys.readouterr().out
    readable = one_value_a_line if name.endswith(".txt") else lambda text: json.dumps(json.loads(text), indent=1)
    check(name, readable(text))


def test_the_report_says_what_it_said(tmp_path):
    page = tmp_path / "report.html"
    main(["report", str(RUNS), "--requirements", str(NEEDS), "--prices", str(PRICES), "-o", str(page)])
    text = "\n".join(Text(page.read_text()).lines)
    check("report.txt", re.sub(r"\d{4}-\d{2}-\d{2}.\d{2}:\d{2}(:\d{2})?( UTC)?", "TIME", text))


@pytest.mark.parametrize("result", sorted(STORED.glob("releases/*/result.json")), ids=lambda path: path.parent.name)
def test_a_record_of_each_release_since_1_1_0_is_read(result):
    stored = json.loads(result.read_text())
    [record] = find_records([result]).records
    assert record.metrics.number("tokens_per_s") == pytest.approx(stored["metrics"]["tokens_per_s"])
    assert record.energy.energy_wh == pytest.approx(stored["energy"]["energy_wh"])
