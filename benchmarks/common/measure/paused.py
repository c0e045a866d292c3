"""Steps after the window that tell more of a step: split into its regions, or with pauses for their energy."""

from __future__ import annotations

import random
import sys
import time
from math import ceil
from typing import Any, cast

from benchmarks.common.measure.measured import Session
from benchmarks.common.measure.regions import PARTS, PAUSE, PAUSED, STATES_SUFFIX, packed, write_states
from benchmarks.common.node.out_of_memory import telling_line
from benchmarks.common.progress import Pace
from benchmarks.common.record import MEASURED, RunRecord
from benchmarks.common.workload import InParts

LONGEST_PAUSE = 0.5  # of a step; of random lengths, so that no sensor keeps step
MOST_PAUSED_STEPS = 20_000  # of shorter ones no sensor tells anything
SEED = 0  # of the pauses, which all ranks make together


def in_parts(session: Session) -> None:
    """Make some more steps, split into their regions, where the usual ones do not tell them."""
    marked, training = session.marked, session.training
    steps = session.options.run.split_steps
    if not (steps and isinstance(training, InParts)):
        return
    lacks = ""
    try:
        training.step_in_parts()  # prepares what it needs
    except Exception as error:  # the run is as good as it was: split steps keep more at a time than whole ones
        lacks = f"rank {session.launch.rank}: {type(error).__name__}: {telling_line(error)}"
    without = [one for one in session.target.gather(lacks) if one]
    if without:
        if session.launch.rank == 0:
            print(f"a step cannot be split, so that its regions are not told: {'; '.join(without)}", file=sys.stderr)
        return
    marked.begin_window(time.monotonic(), every_step=True)
    for _ in range(steps):
        marked.begin()
        training.step_in_parts()
        marked.end()
    marked.end_window(PARTS, time.monotonic())


def paused(session: Session, record: RunRecord, step_s: dict[str, list[float]]) -> dict[str, Any]:
    """Make steps with pauses, for the power of each of their states; return what the record says of them."""
    training, launch, marked, timer = session.training, session.launch, session.marked, session.run.regions
    is_split = "in_parts" in record.regions[MEASURED]
    if session.is_waited_for_together and not is_split:
        if launch.rank == 0:
            print("nothing tells a step's regions here, so that there is no energy of them", file=sys.stderr)
        return {}
    call = cast(InParts, training).step_in_parts if is_split else training.data.call
    one_s = record.regions[PARTS if is_split else MEASURED]["step_s"] * (1 if is_split else training.steps_per_call)
    wanted = ceil(session.options.run.region_energy / one_s / (1 + LONGEST_PAUSE / 2))
    steps = session.agree(min(wanted, MOST_PAUSED_STEPS))
    chance, pace = random.Random(SEED), Pace()
    training.synchronize()
    marked.begin_window(time.monotonic(), every_step=True)
    for index in range(steps):
        marked.begin()
        call()
        training.synchronize()
        timer.device_at_rest()
        marked.end()
        with timer.region(PAUSE):
            time.sleep(chance.uniform(0.0, LONGEST_PAUSE) * one_s)
        if launch.rank == 0 and pace.due:
            print(f"step {index + 1} of {steps} with pauses, for the energy of regions", flush=True)
    marked.end_window(PAUSED, time.monotonic())
    of_ranks = session.target.gather(packed(marked.states(PAUSED, timer.lane)))
    session.write_next_to_record(STATES_SUFFIX, write_states, of_ranks, "the energy of regions will not be reported")
    return {"step_s": step_s, "paused_steps": steps}
