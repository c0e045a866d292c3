"""References of losses from a user's own runs, by the command line."""

from __future__ import annotations

import json
from random import Random

import pytest

from caraml.cli import main
from results.tests import builder

STEPS = 40


@pytest.fixture
def sound(tmp_path):
    """A folder of eight runs that differ in their seeds."""
    for seed in range(1, 9):
        add(tmp_path / "sound", seed)
    return tmp_path / "sound"


def add(folder, seed, higher=0.0, rate=1e-3):
    chance = Random(seed)
    losses = [5 + higher + 4 * 0.9**step + chance.gauss(0, 0.05) for step in range(STEPS)]
    made = builder.result("CPU", steps=STEPS, data="synthetic", precision="fp32")
    made["config"] |= {
        "training": {"seed": seed, "data_seed": 1, "learning_rate": rate},
        "window": {"warmup_steps": 0, "measured_steps": STEPS},
    }
    (folder / str(seed)).mkdir(parents=True)
    (folder / str(seed) / "result.json").write_text(json.dumps({**made, "losses": losses}))


def test_a_site_s_reference_judges_its_runs(sound, tmp_path, capsys, monkeypatch):
    file = tmp_path / "references.csv"
    assert main(["reference", str(sound), "-o", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: llm_training tiny, 40 steps of 8 runs\n"
    add(tmp_path / "new", 11)
    add(tmp_path / "new", 12, higher=0.2)
    assert main(["table", str(tmp_path / "new"), "--all"]) == 0
    assert "not judged" in capsys.readouterr().out
    monkeypatch.setenv("CARAML_TRAINING_REFERENCES", str(file))
    assert main(["table", str(tmp_path / "new"), "--format", "csv"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [("as the reference" in row, "worse" in row) for row in table[1:]] == [(True, False), (False, True)]
    monkeypatch.setenv("CARAML_TRAINING_REFERENCES", str(tmp_path / "none.csv"))
    assert main(["table", str(tmp_path / "new")]) == 2
    assert "none.csv cannot be read as references of losses" in capsys.readouterr().err
