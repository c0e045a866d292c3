"""Started by a test: a training that notes when its steps and checkpoints end, and in which rank 1 may be killed.

train_and_fail.py EVENTS STEPS FLAG...        (STEPS are made before rank 1 is killed; 0: it is not)
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common.measure import checkpoints, window
from benchmarks.llm_training.train import main
from tests.waiting import until

EVENTS, LAST, RANK = Path(sys.argv[1]), int(sys.argv[2]), int(os.environ["RANK"])
restore, saving, write = checkpoints.restore, checkpoints.saving, checkpoints._write
in_window: list[bool] = []


def note(event: str) -> None:
    if RANK == 0 or event == "killed":
        with EVENTS.open("a") as file:
            file.write(json.dumps([event, time.monotonic()]) + "\n")


def noted_restore(session: Any) -> None:
    note("started")
    restore(session)
    note("restored")


def noted_write(session: Any, folder: Path) -> None:
    if not in_window:  # it is one of those that measure it
        write(session, folder)
        return
    note("step")
    write(session, folder)
    note("checkpoint")
    in_window.clear()


def noted_saving(session: Any) -> Callable[[], None]:
    call, trainer = saving(session), session.training

    def noted() -> None:
        if RANK == 1 and LAST and trainer.steps == LAST:
            until(lambda: EVENTS.read_text().count("step") == LAST, "the end of the step on rank 0")
            note("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        in_window.append(True)
        call()
        if in_window:
            note("step")
        in_window.clear()

    return noted


if __name__ == "__main__":
    checkpoints.restore, checkpoints._write, window.saving = noted_restore, noted_write, noted_saving
    sys.exit(main(sys.argv[3:]))
