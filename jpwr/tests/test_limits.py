"""Power limits and clocks: set, read back, and restored on every way out; on stand-ins that follow their limits."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from jpwr.backends.visible import visible
from jpwr.channel import ChannelInfo, Scope
from jpwr.errors import JpwrError
from jpwr.limits import hold, kept, nvml
from jpwr.limits.guardian import guarded
from jpwr.limits.hold import Hold
from jpwr.limits.setting import CLOCK, POWER, NoRight, Setting, checked, value_of
from jpwr.process.child import EXIT_NOT_EXECUTABLE
from jpwr.tests.conftest import DEADLINE_S, NO_ERRORS, environment, wait_until
from jpwr.trace.writers import read_trace
from tests.needs import need_real_processor

FULL_W, FULL_MHZ = 400.0, 1410.0
ROOT = Path(__file__).resolve().parents[2]


class Gpu(NamedTuple):
    """Return the limits of one GPU of the stand-in."""

    limit_w: float
    locked_mhz: float
    application_mhz: float


UNLIMITED = Gpu(FULL_W, FULL_MHZ, FULL_MHZ)


class Machine:
    """GPUs of a stand-in, and the sampler on them."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder, self.state, self.kept = folder, folder / "state", folder / "kept"
        self.state.mkdir()
        self.kept.mkdir()
        self.environ = {
            "LD_LIBRARY_PATH": str(library),
            "STAND_IN_STATE": str(self.state),
            "STAND_IN_SHAPE": "constant",
            "JPWR_LIMITS_DIR": str(self.kept),
        }

    def gpus(self):
        found = []
        for number in range(2):
            path = self.state / f"gpu-{number}"
            numbers = [*map(float, path.read_text().split())] if path.exists() else [FULL_W, 0, FULL_MHZ, FULL_MHZ]
            found.append(Gpu(numbers[0], *numbers[2:4]))
        return found

    def files(self):
        return sorted(path.name for path in self.kept.iterdir())

    def start(self, *arguments, patch="", prefix="exec ", methods="pynvml", **variables):
        program = ("-c", f"import sys, jpwr.cli\n{patch}\nsys.exit(jpwr.cli.main())") if patch else ("-m", "jpwr")
        ours = (sys.executable, *program, "--methods", methods, *arguments)
        return subprocess.Popen(
            ["bash", "-c", f'{prefix}"$@"', "bash", *ours],
            cwd=self.folder,
            env=environment(**{**self.environ, **variables}),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments, **variables):
        process = self.start(*arguments, **variables)
        _, said = process.communicate(timeout=DEADLINE_S)
        return process.returncode, said


@pytest.fixture
def machine(tmp_path, nvml_folder):
    return Machine(tmp_path, nvml_folder)


def test_a_power_limit_holds_during_the_command_and_is_in_the_trace(machine):
    script = "cat state/gpu-* >during; ls kept >files; rows 3"
    code, said = machine.run(
        "--power-limit", "250", "--df-out", "out", "--", "bash", "-c", script, STAND_IN_TAKES_S="0.2"
    )
    assert code == 0, said
    assert [line.split()[0] for line in (machine.folder / "during").read_text().splitlines()] == ["250", "250"]
    assert (machine.folder / "files").read_text().split() == ["jpwr-limits-GPU-0", "jpwr-limits-GPU-1"]
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []
    trace = read_trace(machine.folder / "out" / "trace.csv")
    first, second = trace.meta["limits"]
    assert first == {
        "channel": "pynvml:0",
        "device_id": "GPU-0",
        "kind": "power limit",
        "unit": "W",
        "requested": "250",
        "set": 250.0,
        "found": 250.0,
        "before": 400.0,
        "by": f"jpwr, user {os.getuid()}, NVML power limit",
    }
    assert second["channel"] == "pynvml:1"
    assert {info.limit_w for info in trace.channels} == {250.0}
    assert max(trace.series()[0].power_w) == pytest.approx(250, abs=0.1)  # the stand-in's model
    assert "pynvml:0: power limit 250 W, set by jpwr" in said


def test_only_the_devices_of_the_job_are_limited(machine):
    code, said = machine.run(
        *("--clock", "70%", "--power-limit", "60%", "--", "cp", "-r", "state", "during"), CUDA_VISIBLE_DEVICES="1"
    )
    assert code == 0, said
    assert [path.name for path in (machine.folder / "during").iterdir()] == ["gpu-1"]
    # 70 % are 987 MHz: the step below is set.
    assert (machine.folder / "during" / "gpu-1").read_text().split()[:4:2] == ["240", "975"]
    assert machine.gpus() == [UNLIMITED, UNLIMITED]


def test_application_clocks_are_used_where_an_administrator_has_opened_them(machine):
    rights = {"STAND_IN_RIGHTS": "application-clocks"}
    code, said = machine.run("--clock", "1000", "--", "cp", "-r", "state", "during", **rights)
    assert code == 0, said
    assert (machine.folder / "during" / "gpu-0").read_text().split()[2:4] == ["1410", "990"]
    assert "clock 990 MHz, set by jpwr" in said
    assert machine.gpus() == [UNLIMITED, UNLIMITED]


def test_a_gpu_without_application_clocks_has_its_clocks_locked(machine):
    fault = "no-application-clocks"
    code, said = machine.run("--clock", "1000", "--", "cp", "-r", "state", "during", STAND_IN_FAULT=fault)
    assert code == 0, said
    # The lowest clock stays free: an idle GPU uses it.
    assert (machine.folder / "during" / "gpu-0").read_text().split()[2::4] == ["990", "210"]
    assert "clock 990 MHz, set by jpwr, user" in said
    assert "NVML locked clocks" in said


@pytest.mark.parametrize("fault", ["", "no-application-clocks"])
def test_clocks_that_others_have_locked_are_left_alone(machine, fault):
    (machine.state / "gpu-1").write_text("400 400 990 1410 0 0\n")
    code, said = machine.run("--clock", "85%", "--", "true", STAND_IN_FAULT=fault)
    assert code == 125
    assert "the clock of pynvml:1 is left alone: its clocks are locked already" in said
    assert machine.gpus() == [UNLIMITED, Gpu(FULL_W, 990, FULL_MHZ)]


GUARDIAN = "$(pgrep -P $PPID -f [j]pwr.limits.guardian)"
# Ways out, by what the command does, with the exit code of the sampler.
WAYS = {
    "the command ends": ("true", 0),
    "it fails": ("exit 3", 3),
    "a signal ends it": ("kill -9 $$", 137),
    "SIGTERM": ("kill -TERM $PPID; sleep 100", 143),
    "SIGINT": ("kill -INT $PPID; sleep 100", 130),
    "SIGHUP": ("kill -HUP $PPID; sleep 100", 129),
    "SIGUSR1": ("kill -USR1 $PPID; sleep 100", 138),
    "a second request to end": ("trap '' TERM; kill -TERM $PPID; while :; do sleep 0.3; kill -TERM $PPID; done", 137),
    "SIGSEGV": ("kill -SEGV $PPID", -11),
    "kill -9": ("kill -9 $PPID", -9),
    "kill -9 of its group": ("kill -9 -$PPID", -9),
    "kill -9, and of the command": ("kill -9 $PPID $$", -9),
    "a signal to the guardian": (f"kill -TERM {GUARDIAN}; kill -INT {GUARDIAN}; kill -HUP {GUARDIAN}", 0),
    "kill -9 of the guardian": (f"kill -9 {GUARDIAN}", 0),
    "a sensor that hangs": ("touch hangs; sleep 1.5", 0),
    "a disk that is full": ("is_full() { (($(stat -c %s out/trace.csv) == 4096)); }; wait_until is_full", 0),
}
LIKE_OTHERS = ("it fails", "SIGINT", "SIGHUP", "SIGUSR1", "SIGSEGV", "kill -9, and of the command")


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.slow] if way in LIKE_OTHERS else []) for way in WAYS]
)
def test_what_was_there_before_is_restored_on_every_way_out(machine, way):
    script, expected = WAYS[way]
    is_there = "grep -q '^250 ' state/gpu-0 || exit 99"
    options = ("--interval", "10", "--power-limit", "250", "--df-out", "out")
    process = machine.start(
        *(*options, "--", "bash", "-c", f"{is_there}; {script}"),
        prefix="ulimit -f 4; exec " if "disk" in way else "exec ",
        STAND_IN_FAULT="hang" if "hangs" in way else "",
        STAND_IN_FAULT_FILE="hangs",
    )
    _, said = process.communicate(timeout=DEADLINE_S)  # also of the guardian, which has the same stderr
    assert process.returncode == expected, said
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []
    if expected in (-9, -11):
        assert "the sampler was killed: what limited its devices before is restored" in said


@pytest.mark.parametrize(
    ("arguments", "patch", "expected"),
    [
        (["--", "no-such-command"], "", 127),
        (["--", "/etc/passwd"], "", 126),
        (["--df-out", "state/gpu-0", "--", "true"], "", 125),
        (["--", "true"], "def fails(*_): raise MemoryError\njpwr.cli._measure = fails", 125),
        (["--", "true"], "def fails(*_): raise MemoryError\njpwr.cli.Summary = fails", 0),
        (["--", "true"], "def fails(*_): import os; os.abort()\njpwr.cli.open_methods = fails", -6),
        (["--idle", "100", "--", "true"], "import os\njpwr.cli.gc.freeze = lambda: os.kill(os.getpid(), 15)", 143),
    ],
)
def test_what_was_there_before_is_restored_where_the_sampler_fails(machine, arguments, patch, expected):
    if expected == EXIT_NOT_EXECUTABLE:
        need_real_processor(NO_ERRORS)
    code, said = machine.run("--power-limit", "70%", "--clock", "85%", *arguments, patch=patch)
    assert code == expected, said
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []


def test_where_the_guardian_is_killed_too_the_next_start_restores(machine):
    limits = ("--power-limit", "250", "--clock", "1000")
    code, said = machine.run(*limits, "--", "bash", "-c", f"kill -9 {GUARDIAN} $PPID")
    assert code == -9, said
    assert machine.gpus() == [Gpu(250, 990, FULL_MHZ)] * 2
    assert len(machine.files()) == 2
    # A start that may not change them says so, and one that must refuses.
    code, said = machine.run("--", "true", STAND_IN_RIGHTS="none")
    assert code == 0
    assert "the power limit of pynvml:0 stays at 250 W, and was 400 W (NVML: Insufficient Permissions)" in said
    code, said = machine.run(*limits, "--", "true", STAND_IN_RIGHTS="none")
    assert code == 125
    assert "names limits of an earlier run that are not restored" in said
    # One that sees one GPU restores that one.
    code, said = machine.run("--", "true", CUDA_VISIBLE_DEVICES="1")
    assert code == 0
    assert machine.gpus() == [Gpu(250, 990, FULL_MHZ), UNLIMITED]
    assert machine.files() == ["jpwr-limits-GPU-0"]
    code, said = machine.run("--clock", "500", "--", "true")
    assert code == 0
    assert "an earlier jpwr has left the clock of pynvml:0 at 990 MHz: it is undone" in said
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []


def test_a_limit_that_another_program_changes_is_reported_at_once(machine):
    script = "echo 300 300 1410 1410 0 0 >new; mv new state/gpu-0; file go"
    process = machine.start("--power-limit", "250", "--", "bash", "-c", script, prefix="exec 2>said; exec ")
    said = machine.folder / "said"
    words = "another program has changed the power limit of pynvml:0 to 300 W, and jpwr has set 250 W"
    wait_until(lambda: said.exists() and words in said.read_text(), "the message")
    (machine.folder / "go").touch()
    process.communicate(timeout=DEADLINE_S)
    assert "the power limit of pynvml:0 stays at 300 W, as another program has changed it" in said.read_text()
    assert "limit of pynvml:1:" not in said.read_text()


def test_two_samplers_do_not_limit_one_device(machine):
    first = machine.start("--power-limit", "300", "--", "bash", "-c", "touch begun; file go")
    wait_until((machine.folder / "begun").exists, "the first command")
    code, said = machine.run("--power-limit", "200", "--", "true", CUDA_VISIBLE_DEVICES="1")
    assert code == 125
    assert "another jpwr has changed the limits of GPU-1: wait for its end" in said
    assert [gpu.limit_w for gpu in machine.gpus()] == [300, 300]
    # A run that only samples continues, and reports the limits on its own devices.
    code, said = machine.run("--df-out", "out", "--", "true", CUDA_VISIBLE_DEVICES="1")
    assert code == 0
    by = f"another jpwr, user {os.getuid()}, until it ends"
    assert f"pynvml:1: power limit 300 W, set by {by}; 400 W before" in said
    assert "pynvml:0: power limit" not in said
    [limit] = read_trace(machine.folder / "out" / "trace.csv").meta["limits"]
    assert (limit["channel"], limit["kind"], limit["set"], limit["by"]) == ("pynvml:1", POWER, 300, by)
    (machine.folder / "go").touch()
    first.communicate(timeout=DEADLINE_S)
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    code, said = machine.run("--", "true")
    assert "another jpwr" not in said


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (["--power-limit", "250"], {"STAND_IN_RIGHTS": "none"}, "an administrator can run jpwr as root, set the limit"),
        (["--clock", "70%"], {"STAND_IN_RIGHTS": "none"}, "an administrator can run 'nvidia-smi -acp UNRESTRICTED'"),
        (
            ["--power-limit", "250", "--clock", "70%"],
            {"STAND_IN_RIGHTS": "application-clocks"},
            "the power limit of pynvml:0 cannot be set by this user (NVML: Insufficient Permissions), and nothing was",
        ),
        (["--power-limit", "50"], {}, "--power-limit 50 is 50 W for pynvml:0, which allows 100 to 400 W"),
        (["--clock", "101%"], {}, "--clock 101% is 1424 MHz for pynvml:0, which allows 210 to 1410 MHz"),
        (["--power-limit", "many"], {}, "--power-limit must be a number of W, or a share such as 70%, got 'many'"),
        (["--power-limit", "250"], {"STAND_IN_FAULT": "no-limit"}, "pynvml:0, pynvml:1 has no power limit to set"),
        (
            ["--power-limit", "250"],
            {"STAND_IN_FAULT": "set-fails"},
            "the power limit of pynvml:0 cannot be set (NVML: Unknown",
        ),
        (["--power-limit", "250"], {"STAND_IN_MIG": "1"}, "is left alone: it is divided by MIG"),
        (["--clock", "70%"], {"STAND_IN_VIRTUAL": "3"}, "is left alone: it is divided among virtual machines"),
        (["--clock", "70%"], {"CUDA_VISIBLE_DEVICES": ""}, "this job has no clock to set: nothing was changed"),
        (["--power-limit", "250"], {"STAND_IN_FAULT": "no-driver"}, "no device has limits that can be set"),
        (["--power-limit", "250"], {"prefix": "ulimit -f 0; exec "}, "cannot be written (File too large)"),
        (["--power-limit", "250"], {"JPWR_LIMITS_DIR": "gone"}, "cannot be written (No such file or directory)"),
    ],
)
def test_a_refusal_is_one_sentence_and_changes_nothing(machine, arguments, variables, words):
    code, said = machine.run(*arguments, "--", "touch", "ran", **variables)
    assert code == 125
    assert words in said
    assert said.count("\n") == 1
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []
    assert not (machine.folder / "ran").exists()


def test_limits_of_a_scheduler_are_only_compared(machine):
    asked = ("--limits-set-by", "scheduler", "--power-limit", "300", "--df-out", "out")
    for number in range(2):
        (machine.state / f"gpu-{number}").write_text("300 400 1410 1410 0 0\n")
    rights = {"STAND_IN_RIGHTS": "none"}
    code, said = machine.run(*asked, "--", "true", **rights)
    assert code == 0, said
    [first, _] = read_trace(machine.folder / "out" / "trace.csv").meta["limits"]
    assert (first["by"], first["set"], first["found"], first["before"]) == ("scheduler", 300, 300, None)
    assert [gpu.limit_w for gpu in machine.gpus()] == [300, 300]


def test_the_end_is_waited_for_even_if_a_sensor_is_not(machine):
    process = machine.start("--power-limit", "250", "--", "true", patch="jpwr.cli.CLOSE_S = 0")
    assert process.wait(DEADLINE_S) == 0
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []
    _, said = process.communicate(timeout=DEADLINE_S)
    assert "the sampler was killed" not in said


def test_limits_are_set_and_restored_without_stderr(machine):
    script = "grep -q '^250 ' state/gpu-0"
    code, _ = machine.run("--power-limit", "250", "--", "bash", "-c", script, prefix="exec 2>&-; exec ")
    assert (code, machine.gpus(), machine.files()) == (0, [UNLIMITED, UNLIMITED], [])


def test_a_package_that_cannot_tell_of_mig_changes_nothing(machine):
    package = f"exec(open({importlib.util.find_spec('pynvml').origin!r}).read())\ndel nvmlDeviceGetMigMode\n"
    (machine.folder / "pynvml.py").write_text(package)
    code, said = machine.run("--power-limit", "250", "--", "true", PYTHONPATH=f"{machine.folder}:{ROOT}")
    assert code == 125
    assert f"is left alone: {machine.folder}/pynvml.py has no nvmlDeviceGetMigMode: 'pip uninstall pynvml'" in said
    assert machine.gpus() == [UNLIMITED, UNLIMITED]


def test_what_a_library_prints_is_no_answer_of_the_guardian(machine):
    code, said = machine.run("--power-limit", "250", "--", "true", STAND_IN_PRINTS="a word of the library")
    assert code == 0, said
    assert "a word of the library\n" in said
    assert "power limit 250 W, set by jpwr" in said
    assert machine.gpus() == [UNLIMITED, UNLIMITED]


def test_the_guardian_runs_no_file_of_the_working_directory(machine, monkeypatch):
    (machine.folder / "json.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(machine.folder)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    for name, value in machine.environ.items():
        monkeypatch.setenv(name, value)
    with guarded({POWER: "250"}) as limits:
        assert [one["found"] for one in limits] == [250, 250]
    assert machine.gpus() == [UNLIMITED, UNLIMITED]


# Arithmetic on made-up settings: no process.


class Made:
    """A device that keeps a number, and fails as told."""

    def __init__(self, value=400.0, fails=None, holds=None):
        self.value, self.fails, self.holds = value, fails, holds

    def write(self, value):
        if self.fails:
            raise self.fails("made")
        self.value = value

    def setting(self, device="GPU-0", kind=POWER, **changed):
        found = Setting(
            *(device, "made:0", kind, "made", 400.0, 100.0, 400.0),
            *(lambda: self.value, lambda: self.value if self.holds is None else self.holds, self.write, self.write),
        )
        return found._replace(**changed)


@pytest.fixture
def moment(monkeypatch, tmp_path):
    """A clock on which waiting takes no time; the files are in a folder of the test."""
    times = iter(range(1000))
    monkeypatch.setenv(kept.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(hold.time, "sleep", lambda _: None)
    return lambda: float(next(times))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(POWER, "250", 250), (POWER, "250W", 250), (POWER, "62.5 %".replace(" ", ""), 250), (CLOCK, "300 MHz", 300)],
)
def test_a_value_is_an_amount_or_a_share(kind, text, value):
    assert value_of(checked(kind, text), Made().setting(kind=kind)) == value


@pytest.mark.parametrize(
    "text", ["", "0", "0.7", "0.7%", "-5", "1e3", "nan", "5 apples", "50%%", "70%W", "0.25kW", "3MHz", "inf", "9999999"]
)
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(JpwrError, match="must be a number of W"):
        checked(POWER, text)


def test_a_limit_that_does_not_come_in_force_is_undone(moment):
    made, other = Made(holds=600.0), Made()
    with pytest.raises(JpwrError, match=r"after 10 s 600 W is in force, .*: another limit of the device or the"):
        Hold({POWER: "250"}, [other.setting("GPU-1"), made.setting()], now_s=moment)
    assert (made.value, other.value) == (400, 400)
    assert kept.names() == []


@pytest.mark.parametrize(
    ("kind", "seen", "said"),
    [
        (POWER, [250.0, 250.4], []),
        (POWER, [300.0, 300.0, 250.0, 250.0], ["of made:0 to 300 W, and jpwr has set 250 W", "to 250 W, and jpwr"]),
        (POWER, [200.0, 400.0], ["of made:0 to 200 W, and jpwr has set 250 W", "of made:0 to 400 W, and jpwr has"]),
        (CLOCK, [250.0, 120.0], []),
        (CLOCK, [300.0, 390.0, 250.0], ["the clock of made:0 to above 250 MHz", "to 250 MHz, and jpwr has set"]),
    ],
)
def test_each_change_by_another_program_is_reported_once(moment, kind, seen, said):
    made = Made()
    held = Hold({kind: "250"}, [made.setting(kind=kind)], now_s=moment)
    found = []
    for made.value in seen:
        found += held.changed()
    assert len(found) == len(said)
    assert all(words in sentence for words, sentence in zip(said, found, strict=True)), found


def test_the_first_interface_that_may_be_written_is_used(moment):
    closed, opened = Made(fails=NoRight), Made()
    held = Hold({POWER: "250"}, [closed.setting(), opened.setting(means="other")], now_s=moment)
    assert (closed.value, opened.value) == (400, 250)
    assert held.restore() == []
    assert opened.value == 400


def test_what_another_program_has_changed_since_is_left(moment, capfd):
    made = Made()
    held = Hold({POWER: "250"}, [made.setting()], now_s=moment)
    made.value = 333.0
    assert held.restore() == []
    assert made.value == 333
    assert kept.names() == []
    assert "made:0 stays at 333 W, as another program has changed it, and was 400 W" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["kept", "in_force", "write"])
def test_what_a_library_refuses_is_named(moment, name):
    made = Made()

    def refuse(*_):
        raise JpwrError("NVML: Not Supported")

    verb = "set" if name == "write" else "read"
    words = rf"the power limit of made:0 cannot be {verb} \(NVML: Not Supported\), .* leave --power-limit out"
    with pytest.raises(JpwrError, match=words):
        Hold({POWER: "250"}, [made.setting(**{name: refuse})], now_s=moment)
    assert (made.value, kept.names()) == (400, [])


def test_a_scheduler_is_named_only_where_it_has_set_the_limit(moment, monkeypatch):
    made = Made(value=245.0)
    monkeypatch.setattr(hold, "open_settings", lambda stack: [made.setting()])
    monkeypatch.setattr(hold.time, "monotonic", moment)
    with pytest.raises(JpwrError, match=r"245 W is in force, .*: the scheduler has set another value, the driver has"):
        hold.compared({POWER: "250"})


def test_what_a_driver_has_rounded_is_restored(moment):
    made = Made()

    def write(value):
        made.value = value - 5

    words = "must be 250 W, but after 10 s 245 W is in force, .*: the driver has rounded it to 245 W: ask for a value"
    with pytest.raises(JpwrError, match=words):
        Hold({POWER: "250"}, [made.setting(write=write)], now_s=moment)
    assert made.value == 400


def test_what_a_driver_has_rounded_is_restored_by_the_next_start(moment, monkeypatch, tmp_path):
    made, file = Made(), tmp_path / "jpwr-limits-GPU-0"

    def write(value):
        made.value = value - 5

    held = Hold({CLOCK: "250"}, [made.setting(kind=CLOCK, write=write)], now_s=moment)
    left = file.read_text()
    held.restore()
    made.value = 245.0  # as if both processes had been killed
    file.write_text(left)
    monkeypatch.setattr(hold, "open_settings", lambda stack: [made.setting(kind=CLOCK)])
    hold.recover()
    assert (made.value, kept.names()) == (400, [])


def test_a_clock_between_two_steps_is_the_lower_one_and_with_slurm_the_higher_one():
    setting = Made().setting(kind=CLOCK, full=1980.0, most=1980.0, steps=(210.0, 1080.0, 1095.0, 1980.0))
    assert [value_of(text, setting) for text in ("1089", "1095", "55%")] == [1080, 1095, 1080]
    assert [value_of(text, setting, is_slurms=True) for text in ("1089", "1095", "1980")] == [1095, 1095, 1980]


@pytest.mark.parametrize(
    ("variables", "is_refused"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, True),
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, False),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1"}, False),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, False),
        ({}, False),
    ],
)
def test_numbers_of_unlike_gpus_need_an_order(monkeypatch, variables, is_refused):
    def channels(stack, environ):
        ids = ["GPU-0", "GPU-1"]
        mine = visible(environ, nvml.backend.VISIBLE, [[one] for one in ids])
        infos = [ChannelInfo(f"pynvml:{one}", Scope.DEVICE, f"model {one}", mine=one in mine) for one in range(2)]
        return [SimpleNamespace(info=info._replace(device_id=ids[one])) for one, info in enumerate(infos)]

    monkeypatch.setattr(nvml.backend, "open_channels", channels)
    monkeypatch.setattr(nvml.backend, "opened", lambda stack: (None, 2))
    monkeypatch.setattr(nvml, "_settings", lambda nvml, name, uuid: [uuid])
    with ExitStack() as stack:
        if is_refused:
            with pytest.raises(JpwrError, match="set CUDA_DEVICE_ORDER=PCI_BUS_ID"):
                nvml.open_settings(stack, variables)
        else:
            assert nvml.open_settings(stack, variables)


def test_a_clock_is_set_in_whole_megahertz():
    assert value_of("66.7%", Made().setting(kind=CLOCK, full=2100.0, most=2100.0)) == 1400


def test_a_job_without_a_gpu_has_nothing_to_limit(moment):
    with pytest.raises(JpwrError, match="this job has no clock to set: nothing was changed"):
        Hold({CLOCK: "70%"}, [], now_s=moment)


@pytest.mark.parametrize(("means", "left"), [("made", 400), (kept.FOR_ALL, 100)])
def test_root_sets_nothing_that_the_owner_of_a_file_may_not_set(moment, monkeypatch, tmp_path, means, left):
    entry = {"boot_id": kept.boot_id(), "device_id": "GPU-0", "kind": CLOCK, "means": means, "before": 100, "set": 400}
    path = tmp_path / "jpwr-limits-GPU-0"
    path.write_text(json.dumps(entry) + "\n")
    if os.getuid():
        pytest.skip("only root can give a file to another user")
    os.chown(path, 1, -1)
    made = Made()
    monkeypatch.setattr(hold, "open_settings", lambda stack: [made.setting(kind=CLOCK, means=means)])
    hold.recover()
    assert made.value == left
    assert kept.names() == []


def test_a_library_that_fails_keeps_the_file_and_lets_the_run_start(moment, monkeypatch, tmp_path):
    entry = {"boot_id": kept.boot_id(), "device_id": "GPU-0", "kind": POWER, "means": "made", "before": 400, "set": 250}
    (tmp_path / "jpwr-limits-GPU-0").write_text(json.dumps(entry) + "\n")

    def fails(stack):
        raise RuntimeError("made")

    monkeypatch.setattr(hold, "open_settings", fails)
    hold.recover()
    assert len(kept.names()) == 1


def test_what_another_program_has_changed_since_is_not_called_undone(moment, monkeypatch, capfd, tmp_path):
    entry = {"boot_id": kept.boot_id(), "device_id": "GPU-0", "kind": POWER, "means": "made", "before": 400, "set": 250}
    (tmp_path / "jpwr-limits-GPU-0").write_text(json.dumps(entry) + "\n")
    monkeypatch.setattr(hold, "open_settings", lambda stack: [Made(value=300.0).setting()])
    hold.recover()
    said = capfd.readouterr().err
    assert said.startswith("jpwr: the power limit of made:0 stays at 300 W, as another program has changed it")
    assert "undone" not in said
    assert kept.names() == []


def test_a_limit_that_cannot_be_restored_is_reported_and_its_file_stays(moment, monkeypatch, capfd):
    made = Made()
    held = Hold({POWER: "250"}, [made.setting()], now_s=moment)
    made.fails = JpwrError
    assert held.restore() == ["the power limit of made:0 stays at 250 W, and was 400 W (made)"]
    assert len(kept.names()) == 1
    made.fails = None
    monkeypatch.setattr(hold, "open_settings", lambda stack: [made.setting()])
    hold.recover()
    assert made.value == 400
    assert kept.names() == []
    said = capfd.readouterr().err
    assert said == "jpwr: an earlier jpwr has left the power limit of made:0 at 250 W: it is undone\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json\n",
        '{"kind": "power limit", "set": 1, "before": "many"}\n',
        '{"boot_id": "of another boot", "kind": "x", "set": 1}\n',
        "[1]\n",
    ],
)
def test_a_file_that_names_nothing_of_this_boot_is_removed(moment, tmp_path, text):
    (tmp_path / "jpwr-limits-GPU-0").write_text(text)
    hold.recover()
    assert kept.names() == []


def test_a_file_that_is_no_regular_one_is_left_alone(moment, tmp_path):
    os.mkfifo(tmp_path / "jpwr-limits-GPU-0")
    (tmp_path / "jpwr-limits-GPU-1").symlink_to(tmp_path / "elsewhere")
    hold.recover()
    assert len(kept.names()) == 2
    with pytest.raises(JpwrError):
        kept.create("GPU-0")


def texts(folder):
    return {path.name: path.read_text().strip() for path in folder.iterdir()}


@pytest.fixture
def amd(tmp_path, amdsmi_folder):
    return Machine(tmp_path, amdsmi_folder)


def test_an_amd_gpu_gets_a_power_cap_and_a_highest_clock_and_loses_them(amd):
    options = ("--power-limit", "60%", "--clock", "70%", "--df-out", "out")
    code, said = amd.run(*options, "--", "cp", "-r", "state", "during", methods="rocm", ROCR_VISIBLE_DEVICES="0")
    assert code == 0, said
    during = texts(amd.folder / "during")
    assert during == {"cap-0": "450000000", "clock-0": "1470", "level-0": "8"}
    after = texts(amd.state)
    assert after == {"cap-0": "750000000", "clock-0": "2100", "level-0": "0"}
    limits = read_trace(amd.folder / "out" / "trace.csv").meta["limits"]
    assert [(one["kind"], one["found"], one["before"]) for one in limits] == [
        ("power limit", 450, 750),
        ("clock", 1470, 2100),
    ]
    assert amd.files() == []


def test_an_amd_gpu_is_restored_after_kill_9_and_by_the_next_start(amd):
    options = ("--power-limit", "60%", "--clock", "70%", "--")
    script = ("bash", "-c", "kill -9 $PPID")
    code, said = amd.run(*options, *script, methods="rocm", STAND_IN_GPU="MI250")
    assert code == -9, said
    # Of a card's two dies both have a clock, and one the cap.
    restored = texts(amd.state)
    assert restored["cap-0"] == "750000000"
    assert {restored[f"clock-{die}"] for die in range(4)} == {"2100"}
    code, said = amd.run(*options, "bash", "-c", f"kill -9 {GUARDIAN} $PPID", methods="rocm")
    assert code == -9, said
    assert texts(amd.state)["level-1"] == "8"
    code, said = amd.run("--", "true", methods="rocm")
    assert code == 0, said
    assert texts(amd.state)["level-1"] == "0"
    assert amd.files() == []


def test_an_amd_clock_that_is_no_whole_megahertz_is_restored(amd):
    code, said = amd.run("--clock", "66.7%", "--", "cp", "-r", "state", "during", methods="rocm")
    assert code == 0, said
    assert texts(amd.folder / "during")["clock-0"] == "1400"
    assert texts(amd.state) == {
        f"{name}-{gpu}": value for gpu in (0, 1) for name, value in (("clock", "2100"), ("level", "0"))
    }


@pytest.mark.parametrize("variables", [{"STAND_IN_GPU": "MI250"}, {"STAND_IN_PARTITIONS": "2"}])
@pytest.mark.parametrize("option", ["--power-limit", "--clock"])
def test_a_card_that_a_job_has_in_part_is_left_alone(amd, variables, option):
    code, said = amd.run(option, "70%", "--", "true", methods="rocm", ROCR_VISIBLE_DEVICES="0", **variables)
    assert code == 125
    assert "is left alone: other devices of its card are not this job's" in said
    assert texts(amd.state) == {}
    assert amd.files() == []
    code, said = amd.run(option, "70%", "--", "true", methods="rocm", ROCR_VISIBLE_DEVICES="0,1", **variables)
    assert code == 0, said


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"STAND_IN_RIGHTS": "none"}, "the power limit of rocm:0 cannot be set by this user"),
        ({"level": "3"}, "is left alone: its performance level is AMDSMI_DEV_PERF_LEVEL_MANUAL, not auto"),
    ],
)
def test_an_amd_gpu_without_the_right_is_left_as_it_is(amd, variables, words):
    level = variables.pop("level", "0")
    (amd.state / "level-0").write_text(level)
    code, said = amd.run("--power-limit", "60%", "--clock", "70%", "--", "true", methods="rocm", **variables)
    assert code == 125
    assert words in said
    assert texts(amd.state)["level-0"] == level
    assert texts(amd.state).get("cap-0", "750000000") == "750000000"
    assert amd.files() == []


def test_a_guardian_that_does_not_answer_is_not_waited_for(machine, tmp_path):
    """While setting hangs, the sampler can be ended, and the guardian restores as soon as the driver answers."""
    hangs = tmp_path / "hangs"
    hangs.touch()
    process = machine.start(
        *("--power-limit", "250", "--", "true"), STAND_IN_FAULT="set-hangs", STAND_IN_FAULT_FILE=str(hangs)
    )
    wait_until(lambda: len(machine.files()) == 2 and (machine.kept / "jpwr-limits-GPU-0").stat().st_size, "the file")
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    hangs.unlink()
    _, said = process.communicate(timeout=DEADLINE_S)
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []
    assert "the sampler was killed" in said
