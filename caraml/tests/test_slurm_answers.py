"""Slurm's answers, from programs that are made up; a real Slurm is in tests/test_slurm.py."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from caraml import wait as waiting
from caraml.cli import main
from caraml.errors import SchedulerError
from caraml.schedulers import slurm, submit
from caraml.schedulers.slurm import SUBMISSION
from caraml.wait import settle
from tests.conftest import write_job

HERE = Path("/somewhere")
RECORD = {"schema_version": 4, "benchmark": "b", "system": "s", "model": "m", "work_unit": "tokens", "layout": {}}
SHOWN = "JobId=7 JobName=x JobState={state} Reason={reason} ExitCode=0:0 StartTime=2026-01-01T10:00:00 EndTime=Unknown"
SHOWN += " WorkDir=/somewhere"
UP, DOWN = "Slurmctld(primary) at here is UP", "Slurmctld(primary) at here is DOWN"
# Takes note of each call, and answers after what is in the files beside it: what it says of job 7, it says of each one.
SCONTROL = """here=${0%/*}
echo "$*" >>"$here/asked"
for last; do :; done
case "$last" in
ping) while read -r line; do echo "$line"; done <"$here/ping"; exit ;;
-o) jobs="ALL" ;;
*) jobs=$last ;;
esac
while read -r line; do echo "$line" >&2; exit 1; done <"$here/refused"
while read -r line; do
    case "$line" in
    "JobId=7 "*) for job in $jobs; do echo "JobId=$job ${line#JobId=7 }"; done ;;
    *) echo "$line" ;;
    esac
done <"$here/shown"
""".replace("ALL", " ".join(map(str, range(40))))


class Answers:
    """What scontrol and sacct say from now on."""

    def __init__(self, folder, programs):
        self.folder, self.program = folder, programs
        self.program("scontrol", SCONTROL)
        self(SHOWN.format(state="RUNNING", reason="None"))

    def __call__(self, scontrol="", sacct="", refused="", ping=UP):
        for name, text in (("shown", scontrol), ("refused", refused), ("ping", ping)):
            (self.folder / name).write_text(text + "\n" if text else "")
        self.program("sacct", f"echo '{sacct}'")

    def asked(self):
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def answers(tmp_path, programs, monkeypatch):
    monkeypatch.setattr(slurm, "BEHIND_S", 0.0)
    monkeypatch.setattr(slurm, "ASK_AGAIN_S", 0.0)
    return Answers(tmp_path / "programs", programs)


def add_points(run, *numbers):
    """Points whose jobs are with Slurm."""
    for number in numbers:
        point = run / f"{number:06d}_benchmark" / "work"
        point.mkdir(parents=True)
        (point / "result.json").write_text(json.dumps({**RECORD, "status": "unfinished", "error": ""}))
        (point / "job.id").write_text(f"{number}\n")
        (point / SUBMISSION).write_text('{"name": "x"}')
    (run / "workpackages.xml").touch()
    return run


def look(job_id, folder=HERE):
    return slurm.jobs({folder: job_id})[folder]


@pytest.mark.parametrize(
    ("shown", "row", "state", "joules"),
    [
        ("PENDING", "", "PENDING", None),
        ("", "CANCELLED by 1000|None|0:15|a|b|4000", "CANCELLED", 4000.0),  # which the scheduler has forgotten
        ("", "", "UNKNOWN", None),
        ("COMPLETED", "COMPLETED|None|0:0|a|b|", "COMPLETED", None),
        ("COMPLETED", "COMPLETED|None|0:0|a|b|0", "COMPLETED", None),
        ("COMPLETED", "RUNNING|None|0:0|a|Unknown|50", "COMPLETED", None),  # an accounting that stays behind
    ],
)
def test_a_job_is_as_the_scheduler_says_or_its_accounting(answers, shown, row, state, joules):
    scontrol = SHOWN.format(state=shown, reason="Priority") if shown else ""
    answers(scontrol, f"7|x|/somewhere|{row}", refused="" if shown else "Invalid job id specified")
    job = look("7")
    assert (job.state, job.has_ended, job.consumed_energy_j) == (state, state != "PENDING", joules)


def test_an_energy_is_whole_when_the_accounting_knows_of_the_end(answers, monkeypatch):
    monkeypatch.setattr(slurm, "BEHIND_S", 1000.0)
    answers(SHOWN.format(state="COMPLETED", reason="None"))
    # It has no line at first, then one of a running job, and then the last word.
    lines = ("", "7|x|/somewhere|RUNNING|None|0:0|a|Unknown|50", "7|x|/somewhere|COMPLETED|None|0:0|a|b|7200")
    for number, line in enumerate(lines):
        (answers.folder / f"answer_{number}").write_text(line + "\n")
    answers.program(
        "sacct",
        'here=${0%/*}\nfor n in 0 1 2; do\n[ -e "$here/answer_$n" ] || continue\n'
        'read -r line <"$here/answer_$n"\necho "$line"\n[ $n = 2 ] || /bin/rm "$here/answer_$n"\nexit\ndone\n',
    )
    assert look("7").consumed_energy_j == 7200.0


@pytest.mark.parametrize(("state", "asked_of_accounting"), [("RUNNING", 0), ("COMPLETED", 1)])
def test_all_jobs_of_a_sweep_are_asked_for_at_once(answers, tmp_path, monkeypatch, state, asked_of_accounting):
    monkeypatch.setattr(waiting, "SETTLE_S", 0.0)
    answers(SHOWN.format(state=state, reason="None"))
    rows = "\n".join(f"{number}|x|/somewhere|COMPLETED|None|0:0|a|b|{number}" for number in range(1, 36))
    answers.program("sacct", f"echo sacct >>${{0%/*}}/asked\necho '{rows}'\n")
    run = add_points(tmp_path / "000000", *range(1, 36))
    settle(run)
    assert answers.asked() == ["ping", "--all show job -o", *["sacct"] * asked_of_accounting]
    found = [json.loads(text).get("slurm", {}) for text in records(run)]
    if state == "COMPLETED":
        assert [(one["job_id"], one["consumed_energy_j"]) for one in found] == [
            (str(number), float(number)) for number in range(1, 36)
        ]


@pytest.mark.parametrize(("home", "cluster"), [("private", ""), ("gpu", "--clusters=gpu "), ("", "")])
def test_a_job_is_asked_of_the_cluster_on_which_it_was_submitted(answers, tmp_path, home, cluster):
    (tmp_path / SUBMISSION).write_text(json.dumps({"cluster": home, "name": "x"}))
    answers(f"ClusterName             = private\n{SHOWN.format(state='RUNNING', reason='None')}")
    assert look("7", tmp_path).state == "RUNNING"
    assert answers.asked()[-2:] == [f"{cluster}ping", f"{cluster}--all show job -o 7"]


def test_a_scheduler_that_does_not_answer_is_no_failed_job(answers):
    answers(refused="Unable to contact slurm controller")
    with pytest.raises(SchedulerError, match="Slurm does not answer: Unable to contact"):
        look("7")


def records(run):
    return [path.read_text() for path in sorted(run.glob("*/work/result.json"))]


@pytest.mark.parametrize("flags", [[], ["--retry-failed"]])
def test_an_unreachable_scheduler_is_one_sentence_at_once_and_changes_nothing(answers, tmp_path, capsys, flags):
    run = add_points(tmp_path / "000000", *range(35))
    before = records(run)
    answers(ping=DOWN)
    assert main(["wait", str(run), *flags]) == 2
    assert capsys.readouterr().err == f"caraml: Slurm does not answer: {DOWN}: ask again when it does\n"
    assert answers.asked() == ["ping"]
    assert records(run) == before


def test_a_machine_without_slurm_is_told_from_a_scheduler_that_is_down(answers, tmp_path, capsys):
    (answers.folder / "scontrol").unlink()
    asked = (["wait", str(add_points(tmp_path / "000000", 1))], ["plan", "A100", "llm_training", "--ask-scheduler"])
    assert [main(words) for words in asked] == [2, 2]
    of_sweep, of_run = capsys.readouterr().err.splitlines()
    assert of_sweep == "caraml: there is no scontrol on this machine: run this on a login node of the system"
    assert of_run == f"{of_sweep}, or set CARAML_SUBMIT=bash to run jobs here"


def test_a_scheduler_that_vanishes_while_it_is_waited_for_is_said_once_and_asked_again(
    answers, tmp_path, capsys, monkeypatch
):
    run = add_points(tmp_path / "000000", 1, 2)
    looks = []

    def next_look(seconds):
        """What happens between two looks: Slurm goes away for three of them, and then has ended the jobs."""
        looks.append(records(run))
        if len(looks) == 2:
            answers(ping=DOWN)
        if len(looks) == 5:
            answers(SHOWN.format(state="CANCELLED", reason="None"))

    monkeypatch.setattr(waiting, "time", SimpleNamespace(sleep=next_look, monotonic=lambda: 0.0))
    assert main(["wait", str(run), "--interval", "7"]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        f"{run}: 2 points: 2 running",
        f"{run}: Slurm does not answer: {DOWN}; asking again every 7 s",
        f"{run}: 2 points: 2 failed",
    ]
    assert "job 1: CANCELLED" in told.err
    assert all(look == looks[0] for look in looks[:5])


def test_copies_of_a_point_are_submitted_again_as_copies(tmp_path, monkeypatch):
    submitted = []
    monkeypatch.setattr(waiting, "subprocess", SimpleNamespace(run=lambda *words, **_: submitted.append(words)))
    [point] = add_points(tmp_path / "000000", 1).glob("*/work")
    (point / "job.id").unlink()
    (point / "result.json").unlink()
    write_job(point, "", tags=["fill"], devices_per_node=2, meter={"accuracy_percent": 1.0})
    planned = json.loads((point / "result.json").read_text())
    (point / "result.json").write_text(json.dumps({**planned, "status": "failed", "error": "why"}))
    (point / "submitted").write_text("bash s 1\n")
    (point / "error").touch()
    assert waiting.retry_failed(tmp_path / "000000") == [point]
    assert planned["fill"] == {"copies": 2, "devices_per_copy": 1}
    assert (json.loads((point / "result.json").read_text()), len(submitted)) == (planned, 1)


@pytest.mark.parametrize("state", ["REQUEUE_HOLD", "SOMETHING_NEW", ""])
def test_a_state_that_is_not_known_is_of_a_job_that_may_run_and_is_not_started_again(
    answers, tmp_path, capsys, monkeypatch, state
):
    run = add_points(tmp_path / "000000", 1)
    before = records(run)
    answers(SHOWN.format(state=state, reason="None"))
    assert [standing.state for standing in settle(run).values()] == ["queued"]
    assert main(["wait", str(run), "--retry-failed", "--limit", "0.01", "--interval", "0.01"]) == 3
    assert records(run) == before
    assert len(list(run.glob("*/work/*"))) == 3


LOST = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
LONG = "sbatch: error: Batch job submission failed: Requested time limit is invalid"
SUBMISSIONS = {
    "a number": ("echo 7", "", "7", ""),
    "a cluster": ("echo '7;gpu'", "", "7;gpu", ""),
    "words around it": ("echo 'Welcome to 2 clusters!'; echo; echo ' 7;c1 '; echo note: 5 jobs", "", "7;c1", ""),
    "a lost connection": (f"echo '{LOST}' >&2; exit 1", "echo 9", "9", ""),
    "no number": ("echo Welcome", "echo 9", "9", ""),
    "a refusal": ("echo no >&2; exit 1", "", "", "sbatch refused the job: no"),
    "too long a limit": (f"echo '{LONG}' >&2; exit 1", "", "", f"sbatch refused the job: {LONG}: {slurm.TIME_LIMIT}"),
    "no answer": (f"echo '{LOST}' >&2; exit 1", "echo away >&2; exit 1", "", "Slurm does not answer: away; whether"),
    "nothing": ("echo Welcome", "", "", "sbatch printed no job number, but 'Welcome'; whether"),
}


@pytest.mark.parametrize("case", SUBMISSIONS)
def test_a_submitted_job_is_known_by_its_number_or_found_by_its_name(answers, tmp_path, monkeypatch, capsys, case):
    sbatch, squeue, job_id, error = SUBMISSIONS[case]
    monkeypatch.chdir(tmp_path)
    answers("ClusterName             = private")
    answers.program("sbatch", f'echo "$0 $*" >>{answers.folder}/asked\n{sbatch}\n')
    answers.program("squeue", f'echo "$0 $*" >>{answers.folder}/asked\n{squeue}\n')
    (tmp_path / "result.json").write_text(json.dumps({**RECORD, "status": "unfinished", "error": ""}))
    code = submit.main(["sbatch", "A100"])
    told = capsys.readouterr().err
    submission = json.loads((tmp_path / SUBMISSION).read_text())
    assert submission["cluster"] == "private"
    assert any(f"sbatch --parsable --job-name={submission['name']} job.sh" in line for line in answers.asked())
    written = tmp_path / "job.id"
    assert (written.read_text().strip() if written.exists() else "") == job_id
    assert told.startswith(error)
    result = json.loads((tmp_path / "result.json").read_text())
    if " whether" in error:
        assert (code, result["status"], result["error"]) == (0, "unfinished", told.strip())
        # Asked again, Slurm has it: there is no second job.
        answers.program("sbatch", "echo 8\n")
        answers.program("squeue", f'case "$*" in *--name={submission["name"]}) echo 7 ;; esac\n')
        assert submit.main(["sbatch", "A100"]) == 0
        assert written.read_text() == "7\n"
    else:
        assert code == (1 if error else 0)


OURS, OTHERS = "x|/somewhere", "y|/elsewhere"


@pytest.mark.parametrize(
    ("shown", "rows", "state", "joules"),
    [
        ("JobName=x WorkDir=/old", [], "RUNNING", None),  # renamed, or mounted elsewhere
        ("JobName=y WorkDir=/somewhere", [], "RUNNING", None),  # the job was renamed
        ("JobName=y WorkDir=/elsewhere", [], "UNKNOWN", None),
        ("JobName=y WorkDir=/elsewhere", [OTHERS], "UNKNOWN", None),
        ("JobName=y WorkDir=/elsewhere", [OURS, OTHERS], "FAILED", 1.0),
        ("JobName=y WorkDir=/elsewhere", [OTHERS, "x|/old"], "FAILED", 2.0),
    ],
)
def test_a_job_of_the_same_number_is_not_ours(answers, monkeypatch, tmp_path, shown, rows, state, joules):
    monkeypatch.setattr(slurm.Submission, "read", lambda folder: slurm.Submission("", "x", 1e9))
    lines = [f"7|{one}|FAILED|None|1:0|a|b|{index}" for index, one in enumerate(rows, 1)]
    answers(SHOWN.format(state="RUNNING", reason="None") + " " + shown, "\n".join(lines))
    job = look("7")
    assert (job.state, job.consumed_energy_j) == (state, joules)
    assert ("submitted" in job.reason) == (rows[-1:] == ["x|/old"])
    assert ("another job" in job.reason) == (state == "UNKNOWN")
