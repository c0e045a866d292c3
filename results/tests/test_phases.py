"""Energy of prefill and decode by slices of one load, against loads whose costs are known."""

from __future__ import annotations

import random
from array import array

import pytest

from results.join.phases import energy_of_phases, slices_of, tokens_of
from results.record.served import Request, Window

READ_J, WRITTEN_J = 0.012, 0.11


class Load:
    """Streams in a closed loop, each with prompts that are read in 0.1 s and answers of 10 tokens in 200 ms."""

    def __init__(self, seed: int, streams: int = 8, seconds: float = 60.0, prompts: bool = True) -> None:
        chance = random.Random(seed)
        self.start_s, self.end_s, self.requests = 10.0, 10.0 + seconds, []
        for slot in range(streams):
            now_s = chance.uniform(0, 2)
            while now_s < self.end_s:
                count = chance.randint(5, 15)
                one = Request(len(self.requests), slot, now_s, now_s, 2048 if prompts else 0, 10 * count)
                one.times_s = array("d", [now_s + 0.1 + 0.2 * index for index in range(count)])
                one.counts = array("H", [10] * count)
                one.ended_s = now_s = one.times_s[-1]
                self.requests.append(one)


def found_in(load: Load, noise: float, seed: int = 0) -> dict[str, float]:
    """What is found where slices use what their tokens cost, and each edge moves by some noise in joules."""
    window, chance = Window(load), random.Random(seed)
    slices = slices_of(window.start_s, window.end_s)
    if not slices:
        return energy_of_phases(window, [])
    edges = [*(begin for begin, _ in slices), slices[-1][1]]
    moved = [chance.gauss(0, noise) for _ in edges]
    return energy_of_phases(
        window,
        [
            READ_J * read + WRITTEN_J * written + moved[index + 1] - moved[index]
            for index, (read, written) in enumerate(zip(*tokens_of(window, edges), strict=True))
        ],
    )


def test_the_costs_of_reading_and_writing_are_found():
    found = found_in(Load(1), 0.0)
    assert found["j_per_token_read"] == pytest.approx(READ_J, rel=1e-6)
    assert found["j_per_token_written"] == pytest.approx(WRITTEN_J, rel=1e-6)


def test_intervals_hold_in_about_95_of_100():
    held = []
    for seed in range(40):
        found = found_in(Load(seed), 3.0, seed)
        for name, truth in (("read", READ_J), ("written", WRITTEN_J)) if found else ():
            held.append(abs(found[f"j_per_token_{name}"] - truth) <= found[f"j_per_token_{name}_half_width"])
    assert len(held) > 60
    assert sum(held) >= 0.9 * len(held)


@pytest.mark.parametrize(
    ("load", "noise"),
    [(Load(1, seconds=30.0), 0.0), (Load(1, prompts=False), 0.0), (Load(1, streams=1), 50.0), (Load(1), float("nan"))],
    ids=["too short", "no prompts", "noise", "unknown energy"],
)
def test_what_the_slices_do_not_determine_is_left_out(load, noise):
    assert found_in(load, noise) == {}


def test_a_prompt_is_read_from_its_sending_to_the_first_token():
    one = Request(0, 0, 1.0, 1.5, 1000, 3)
    one.times_s, one.counts, one.ended_s = array("d", [3.5, 3.6, 4.5]), array("H", [1, 2, 1]), 4.5
    load = Load(1, streams=0)
    load.start_s, load.end_s, load.requests = 0.0, 6.0, [one]
    read, written = tokens_of(Window(load), [0.0, 2.0, 4.0, 6.0])
    assert read == pytest.approx([250.0, 750.0, 0.0])
    assert written == [0.0, 3.0, 1.0]
