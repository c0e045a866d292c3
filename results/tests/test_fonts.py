"""Names in scripts that the plots' own font lacks: readable in all plots, and no library's warning reaches anybody."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from caraml.cli import main
from results.show.plots import fonts
from results.show.plots.style import Chart, new_figure
from results.tests import made_up

NAMES = "曙光", "富岳", "सर्वर"


def chart(name="曙光-A"):
    figure, [axes] = new_figure()
    axes.bar([0, 1], [1, 2], label=name)
    axes.set_xticks([0, 1], [name, "B"])
    axes.set_title(f"Speed of {name}")
    axes.legend()
    return Chart("speed", "Speed", "in words", figure)


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_name_without_a_font_is_itself_in_the_page(monkeypatch):
    monkeypatch.setattr(fonts, "_covered", lambda chars: {})
    one = chart()
    assert "曙光-A" in one.svg()  # the page's reader may have the font
    assert one.png() != chart("A").png()
    assert one.boxes == "In the PNG, boxes stand for 曙光-A."
    assert chart("A").boxes == ""


def test_a_font_that_has_the_characters_is_used(monkeypatch):
    monkeypatch.setattr(fonts, "_covered", lambda chars: {"A Gothic": chars & set("曙"), "Other": chars & set("曙光")})
    assert fonts.fonts_for(chart().figure) == [fonts.OWN, "Other"]
    monkeypatch.setattr(fonts, "_covered", lambda chars: {"A Gothic": chars & set("曙")})
    assert fonts.fonts_for(chart().figure) == [fonts.OWN, "A Gothic"]


def test_plain_names_need_no_other_font(monkeypatch):
    monkeypatch.setattr(fonts, "_covered", None)
    assert fonts.fonts_for(chart("H200 ± Größe").figure) == [fonts.OWN]


@pytest.mark.slow
def test_no_warning_of_a_library_reaches_who_asks_for_a_report(tmp_path):
    records = [made_up.result(system=name, tokens_per_s=100.0 + repeat) for name in NAMES for repeat in range(3)]
    made_up.store(tmp_path / "runs", records)
    command = [sys.executable, "-m", "caraml", "report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(name in page for name in NAMES)
    assert main(["table", str(tmp_path / "runs")]) == 0
