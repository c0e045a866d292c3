"""megatron-core's and PyTorch's own regions and collectives as those of the suite."""

from __future__ import annotations

import contextlib
from functools import partial
from types import SimpleNamespace

import pytest

from jpwr.regions import RegionTimer
from jpwr.regions.times import BACKWARD, BATCH, COMM, FORWARD, UPDATE
from tests.later import Later

pytestmark = pytest.mark.long

torch, dist = Later("torch"), Later("torch.distributed")
regions, communication = Later("benchmarks.llm_training.gpt.regions"), Later("benchmarks.on_pytorch.communication")


@pytest.fixture
def group():
    """A world of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def keys(timer):
    return [span.key for span in timer.spans()]


def test_megatrons_regions_are_ours():
    timer = RegionTimer()
    timers = partial(regions.MegatronTimer, timer)
    for name in ("forward-compute", "forward-backward", "backward-compute", "some-region-of-tomorrow", "backward-send"):
        timers(name, log_level=2).start(barrier=True)
        timers(name).stop()
    assert keys(timer) == [FORWARD, BACKWARD, COMM]
    others = "optimizer-inner-step", "all-grads-sync", "forward-send-backward-recv"
    assert list(map(regions.region_of, others)) == [UPDATE, COMM, COMM]
    assert timer.count() == 2 * len(timer.spans())


def test_every_region_that_megatron_times_itself_is_known():
    import re
    from pathlib import Path

    import megatron.core

    [folder] = megatron.core.__path__
    text = "".join(path.read_text() for path in Path(folder).rglob("*.py") if "inference" not in path.parts)
    names = set(re.findall(r"timers\('([a-z-]+)'", text))
    assert len(names) > 15
    assert {name for name in names if regions.region_of(name) is None} == {"forward-backward"}


def test_a_collective_within_the_block_is_comm_and_the_functions_are_their_own_again(group):
    timer, before = RegionTimer(), dist.all_reduce
    keeper = SimpleNamespace(sum_up=before, other=1)
    with contextlib.suppress(ValueError), communication.marked_collectives(timer, [keeper]):
        dist.all_reduce(torch.ones(2))
        keeper.sum_up(torch.ones(2))
        timer.recording = False
        dist.all_reduce(torch.ones(2))
        raise ValueError
    assert keys(timer) == [COMM, COMM]
    assert dist.all_reduce is keeper.sum_up is before


def test_a_collective_under_way_has_its_wait_and_its_whole_time(group):
    timer, values = RegionTimer(), torch.ones(3)
    with communication.marked_collectives(timer):
        with timer.region(BATCH):
            work = dist.all_reduce(values, async_op=True)
            with timer.region(BACKWARD):
                pass
            work.wait()
        assert work.is_completed()
    assert values.tolist() == [1, 1, 1]
    [beside] = [span for span in timer.spans() if span.lane == communication.LANE]
    waits = [span for span in timer.spans() if span.key == COMM and span.lane != communication.LANE]
    assert len(waits) == 2
    assert beside.start_s <= waits[0].start_s <= waits[0].end_s <= waits[1].start_s <= waits[1].end_s <= beside.end_s


class Work:
    """A collective that ends when the test says so."""

    def __init__(self):
        self.callbacks, self.waited = [], 0

    def get_future(self):
        return SimpleNamespace(add_done_callback=self.callbacks.append)

    def wait(self):
        self.waited += 1


class Buckets:
    """A group of megatron-core's buckets."""

    def __init__(self):
        self.grad_reduce_handle = self.param_gather_handle = None
        self.works = []

    def start_grad_sync(self, force_all_reduce=False):
        self.works = [Work(), Work()]
        self.grad_reduce_handle = SimpleNamespace(works=self.works, wait=lambda: [work.wait() for work in self.works])

    def start_param_sync(self, force_sync=False):
        pass


def test_an_overlapped_sum_of_gradients_has_its_true_end_though_it_is_waited_for_later():
    clock = [0.0]
    timer, buckets = RegionTimer(now_s=lambda: clock[0]), Buckets()
    model = SimpleNamespace(bucket_groups=[buckets], expert_parallel_bucket_groups=[])
    regions.mark_overlapped_sums(timer, model, False)
    buckets.start_grad_sync()
    for time_s, work in zip((3.0, 2.0), buckets.works, strict=True):
        clock[0] = time_s
        [ended] = work.callbacks
        ended(None)
    clock[0] = 9.0
    buckets.grad_reduce_handle.wait()
    assert [work.waited for work in buckets.works] == [1, 1]
    [beside] = [span for span in timer.spans() if span.lane == communication.LANE]
    assert (beside.start_s, beside.end_s) == (0.0, 3.0)
    assert communication.end_of(timer, buckets.works, True)() is None  # a stream that waits may hold up the training
    buckets.start_param_sync(force_sync=True)  # which has nothing under way
    timer.recording = False
    buckets.start_grad_sync()
    assert not isinstance(buckets.grad_reduce_handle, communication.MarkedWork)
