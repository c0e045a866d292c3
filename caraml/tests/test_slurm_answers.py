"""Slurm's answers, from programs that are made up; a real Slurm is in tests/test_slurm.py."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from caraml.errors import SchedulerError
from caraml.slurm import Slurm
from caraml.wait import settle, wait

HERE = Path("/somewhere")
RECORD = {"schema_version": 2, "benchmark": "b", "system": "s", "model": "m", "work_unit": "tokens", "layout": {}}
SHOWN = "JobId=7 JobName=x JobState={state} Reason={reason} ExitCode=0:0 StartTime=2026-01-01T10:00:00 EndTime=Unknown"


@pytest.fixture
def answers(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def answer(scontrol="", sacct="", refused=""):
        for name, said, fault in (("scontrol", scontrol, refused), ("sacct", sacct, "")):
            script = f"#!/bin/sh\necho '{said}'\n" if not fault else f"#!/bin/sh\necho '{fault}' >&2\nexit 1\n"
            (tmp_path / name).write_text(script)
            (tmp_path / name).chmod(0o755)

    return answer


def test_a_job_that_slurm_remembers_is_as_the_scheduler_says(answers):
    answers(SHOWN.format(state="PENDING", reason="Priority"))
    job = Slurm().job("7", HERE)
    assert (job.state, job.reason, job.has_ended) == ("PENDING", "Priority", False)
    assert str(job) == "job 7: PENDING (Priority)"


def test_a_job_that_the_scheduler_has_forgotten_is_as_its_accounting_says(answers):
    answers(
        sacct="CANCELLED by 1000|None|0:15|2026-01-01T10:00:00|2026-01-01T10:05:00|4000",
        refused="Invalid job id specified",
    )
    job = Slurm().job("7", HERE)
    assert (job.state, job.has_ended, job.consumed_energy_j) == ("CANCELLED", True, 4000.0)


@pytest.mark.parametrize("energy", ["", "0"])
def test_an_energy_of_nothing_was_not_measured(answers, energy):
    answers(SHOWN.format(state="COMPLETED", reason="None"), f"COMPLETED|None|0:0|a|b|{energy}")
    assert Slurm().job("7", HERE).consumed_energy_j is None


def test_a_job_that_nobody_knows_has_ended(answers):
    answers(refused="Invalid job id specified")
    job = Slurm().job("7", HERE)
    assert job.has_ended
    assert "no longer knows" in str(job)


def test_a_scheduler_that_does_not_answer_is_no_failed_job(answers):
    answers(refused="Unable to contact slurm controller")
    with pytest.raises(SchedulerError, match="Slurm does not answer: Unable to contact"):
        Slurm().job("7", HERE)


def test_a_point_that_no_job_has_is_open_and_not_waited_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JUBE", "no-such-jube")
    point = tmp_path / "run" / "000001_benchmark" / "work"
    point.mkdir(parents=True)
    (point / "result.json").write_text(json.dumps({**RECORD, "status": "unfinished", "error": ""}))
    with subprocess.Popen(["sleep", "60"], cwd=point) as process:
        while Path(f"/proc/{process.pid}/cwd").resolve() != point:
            time.sleep(0.01)
        assert settle(tmp_path / "run")[0].state == "running"
        process.kill()
    assert wait(tmp_path / "run", 0.01, None)
    assert "1 points: 1 open" in capsys.readouterr().out


def test_slurms_energy_is_kept_beside_ours(answers, tmp_path):
    answers(SHOWN.format(state="COMPLETED", reason="None"), "COMPLETED|None|0:0|a|b|7200")
    point = tmp_path / "run" / "000001_benchmark" / "work"
    point.mkdir(parents=True)
    (point / "job.id").write_text("7\n")
    (point / "ready").touch()
    (point / "result.json").write_text(json.dumps({**RECORD, "status": "ok", "error": ""}))
    [standing] = settle(tmp_path / "run")
    assert standing.state == "ok"
    found = json.loads((point / "result.json").read_text())["slurm"]
    assert (found["state"], found["consumed_energy_wh"]) == ("COMPLETED", 2.0)


def test_the_number_of_somebody_elses_job_is_not_taken_for_ours(answers):
    answers(SHOWN.format(state="RUNNING", reason="None") + " WorkDir=/elsewhere")
    assert "another job, in /elsewhere" in str(Slurm().job("7", HERE))
    answers(SHOWN.format(state="RUNNING", reason="None") + " WorkDir=/somewhere")
    assert Slurm().job("7", HERE).state == "RUNNING"
