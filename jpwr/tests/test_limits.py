"""Power limits and clocks: set, read back and restored; on stand-ins that follow their limits."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from jpwr.backends.visible import visible
from jpwr.channel import ChannelInfo, Scope
from jpwr.errors import JpwrError
from jpwr.limits import kept, nvml
from jpwr.limits.setting import CLOCK, POWER, Setting, checked, value_of
from jpwr.tests.conftest import DEADLINE_S, environment, wait_until
from jpwr.trace.trace import STATUS
from jpwr.trace.writers import read_trace

FULL_W, FULL_MHZ = 400.0, 1410.0
ROOT = Path(__file__).resolve().parents[2]


class Gpu(NamedTuple):
    """Return the limits of one GPU of the stand-in."""

    limit_w: float
    locked_mhz: float
    application_mhz: float


NO_ROOT = "import os; os.geteuid = lambda: 1000"
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
    assert (machine.folder / "files").read_text().split() == [f"jpwr-limits-{os.getuid()}"]
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
    rights = {"STAND_IN_RIGHTS": "application-clocks", "patch": NO_ROOT}
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
    assert "the clock of pynvml:1 is not limited: its clocks are locked already" in said
    assert machine.gpus() == [UNLIMITED, Gpu(FULL_W, 990, FULL_MHZ)]


@pytest.mark.parametrize(("script", "expected"), [("exit 3", 3), ("kill -TERM $PPID; sleep 100", 143)])
def test_what_was_there_before_is_restored_on_every_way_out(machine, script, expected):
    is_there = "grep -q '^250 ' state/gpu-0 || exit 99"
    code, said = machine.run("--power-limit", "250", "--", "bash", "-c", f"{is_there}; {script}")
    assert code == expected, said
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []


@pytest.mark.parametrize(
    ("arguments", "patch", "expected"),
    [
        (["--", "no-such-command"], "", 127),
        (["--df-out", "state/gpu-0", "--", "true"], "", 125),
        (["--", "true"], "def fails(*_): raise MemoryError\njpwr.cli._measure = fails", 125),
        (["--", "true"], "def fails(*_): raise MemoryError\njpwr.cli.Summary = fails", 0),
        (["--idle", "100", "--", "true"], "import os\njpwr.cli.gc.freeze = lambda: os.kill(os.getpid(), 15)", 143),
    ],
)
def test_what_was_there_before_is_restored_where_the_sampler_fails(machine, arguments, patch, expected):
    code, said = machine.run("--power-limit", "70%", "--clock", "85%", *arguments, patch=patch)
    assert code == expected, said
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []


def test_after_kill_9_the_next_start_restores(machine):
    limits = ("--power-limit", "250", "--clock", "1000")
    code, said = machine.run(*limits, "--", "bash", "-c", "kill -9 $PPID")
    assert code == -9, said
    assert machine.gpus() == [Gpu(250, 990, FULL_MHZ)] * 2
    # A start that may not change them says so, and one that must refuses.
    code, said = machine.run("--", "true", STAND_IN_RIGHTS="none")
    assert code == 0
    assert "the power limit of pynvml:0 stays at 250 W, and was 400 W (NVML: Insufficient Permissions)" in said
    code, said = machine.run(*limits, "--", "true", STAND_IN_RIGHTS="none")
    assert code == 125
    assert "names a change of an earlier run that is not restored" in said
    # One that sees one GPU restores that one.
    code, said = machine.run("--", "true", CUDA_VISIBLE_DEVICES="1")
    assert code == 0, said
    assert machine.gpus() == [Gpu(250, 990, FULL_MHZ), UNLIMITED]
    assert len(machine.files()) == 1
    code, said = machine.run("--clock", "500", "--", "true")
    assert code == 0, said
    assert machine.gpus() == [UNLIMITED, UNLIMITED]
    assert machine.files() == []


def test_a_limit_that_another_program_changes_stays_and_is_in_the_trace(machine):
    script = "echo 300 300 1410 1410 0 0 >new; mv new state/gpu-0; sleep 2.5"
    code, said = machine.run("--power-limit", "250", "--df-out", "out", "--", "bash", "-c", script)
    assert code == 0, said
    assert "the power limit of pynvml:0 stays at 300 W, as another program has changed it, and was 400 W" in said
    assert [gpu.limit_w for gpu in machine.gpus()] == [300, 400]
    events = [one for one in read_trace(machine.folder / "out" / "trace.csv").events if one.name == STATUS]
    seen = {one.details["power_limit_w"] for one in events if one.details["channel"] == "pynvml:0"}
    assert seen == {250, 300}


def test_a_second_sampler_sets_nothing_and_restores_nothing_of_the_first(machine):
    first = machine.start("--power-limit", "300", "--", "bash", "-c", "touch begun; file go")
    wait_until((machine.folder / "begun").exists, "the first command")
    code, said = machine.run("--power-limit", "200", "--", "true", CUDA_VISIBLE_DEVICES="1")
    assert code == 125
    assert "another jpwr has changed limits of this node: wait for its end" in said
    assert machine.run("--", "true")[0] == 0
    assert [gpu.limit_w for gpu in machine.gpus()] == [300, 300]
    (machine.folder / "go").touch()
    first.communicate(timeout=DEADLINE_S)
    assert machine.gpus() == [UNLIMITED, UNLIMITED]


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["--power-limit", "250"], {"STAND_IN_RIGHTS": "none"}),
        (["--power-limit", "250", "--clock", "70%"], {"STAND_IN_RIGHTS": "application-clocks"}),
        (["--power-limit", "50"], {}),
        (["--power-limit", "250"], {"STAND_IN_FAULT": "no-limit"}),
        (["--power-limit", "250"], {"STAND_IN_FAULT": "set-fails"}),
        (["--power-limit", "250"], {"STAND_IN_MIG": "1"}),
        (["--clock", "70%"], {"STAND_IN_VIRTUAL": "3"}),
        (["--clock", "70%"], {"CUDA_VISIBLE_DEVICES": ""}),
        (["--power-limit", "250"], {"STAND_IN_FAULT": "no-driver"}),
        (["--power-limit", "250"], {"prefix": "ulimit -f 0; exec "}),
        (["--power-limit", "250"], {"JPWR_LIMITS_DIR": "gone"}),
    ],
)
def test_a_refusal_is_one_sentence_and_changes_nothing(machine, arguments, variables):
    code, said = machine.run(*arguments, "--", "touch", "ran", **variables)
    assert code == 125
    assert said.startswith("jpwr: ")
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


# Arithmetic on made-up settings: no process.


def made(kind=POWER, **changed):
    functions = (lambda: 400.0, lambda: 245.0, lambda _: None, lambda _: None)
    return Setting("GPU-0", "made:0", kind, "made", 400.0, 100.0, 400.0, *functions)._replace(**changed)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(POWER, "250", 250), (POWER, "250W", 250), (POWER, "62.5 %".replace(" ", ""), 250), (CLOCK, "300 MHz", 300)],
)
def test_a_value_is_an_amount_or_a_share(kind, text, value):
    assert value_of(checked(kind, text), made(kind=kind)) == value


@pytest.mark.parametrize("text", ["", "0", "0.7%", "-5", "1e3", "nan", "50%%", "3MHz", "9999999"])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(JpwrError, match="must be a number of W"):
        checked(POWER, text)


def test_a_clock_between_two_steps_is_the_lower_one_and_with_slurm_the_higher_one():
    setting = made(kind=CLOCK, full=1980.0, most=1980.0, steps=(210.0, 1080.0, 1095.0, 1980.0))
    assert [value_of(text, setting) for text in ("1089", "1095", "55%")] == [1080, 1095, 1080]
    assert value_of("66.7%", setting._replace(full=2100.0, steps=())) == 1400  # whole megahertz
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


@pytest.mark.parametrize(("set_to", "undone"), [(250.0, [400.0]), (247.0, [400.0]), (300.0, [])])
def test_what_a_driver_has_rounded_is_restored_and_what_others_have_set_is_not(set_to, undone):
    found = []
    setting = made(kept=lambda: 250.0, undo=found.append)
    assert kept._is_undone(setting, 400.0, set_to)
    assert found == undone


@pytest.mark.parametrize("line", ["", "no json", "[1]", '{"boot": "of another boot", "device_id": "GPU-0"}'])
def test_a_file_that_names_nothing_of_this_boot_is_removed(monkeypatch, tmp_path, line):
    monkeypatch.setenv(kept.FOLDER_VARIABLE, str(tmp_path))
    kept.path_of_file().write_text(line + "\n")
    file = kept.Kept()
    file.restore(lambda stack: pytest.fail("nothing is to be restored"))
    file.close()
    assert not kept.path_of_file().exists()


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


@pytest.mark.parametrize("variables", [{"STAND_IN_GPU": "MI250"}, {"STAND_IN_PARTITIONS": "2"}])
@pytest.mark.parametrize("option", ["--power-limit", "--clock"])
def test_a_card_that_a_job_has_in_part_is_left_alone(amd, variables, option):
    code, said = amd.run(option, "70%", "--", "true", methods="rocm", ROCR_VISIBLE_DEVICES="0", **variables)
    assert code == 125
    assert "is not limited: other devices of its card are not this job's" in said
    assert texts(amd.state) == {}
    assert amd.files() == []
    code, said = amd.run(option, "70%", "--", "true", methods="rocm", ROCR_VISIBLE_DEVICES="0,1", **variables)
    assert code == 0, said


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"STAND_IN_RIGHTS": "none"}, "the power limit of rocm:0 is not limited: amdsmi: "),
        ({"level": "3"}, "is not limited: its performance level is AMDSMI_DEV_PERF_LEVEL_MANUAL, not auto"),
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
