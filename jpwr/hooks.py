"""Regions of training loops in other code: a callback for Keras, hooks for PyTorch."""

from __future__ import annotations

from typing import Any, Callable

from jpwr.errors import JpwrError
from jpwr.regions import Moment, RegionTimer
from jpwr.regions.times import BACKWARD, BATCH, EPOCH, FORWARD, UPDATE


def keras_callback(timer: RegionTimer) -> Any:
    """Return a callback for `model.fit(callbacks=[...])` that times Epoch and Batch; raise JpwrError without Keras."""
    try:
        import keras
    except ImportError as error:
        raise JpwrError("a callback for Keras was requested, but Keras is missing: pip install keras") from error

    class RegionCallback(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            timer.start(EPOCH)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            timer.end(EPOCH)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            timer.start(BATCH)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            timer.end(BATCH)

    return RegionCallback()


def mark_torch(timer: RegionTimer, model: Any, optimizer: Any) -> Callable[[], None]:
    """Time Forward, Backward, Update and Batch of a PyTorch model by hooks; return a function that removes them.

    A Batch lasts from one update to the next; with gradient accumulation, it has several passes. `for batch in
    timer.io(loader):` adds IO.
    """
    import torch
    from torch.utils import _pytree as tree

    in_batch = False
    backward: list[Moment] = []  # its beginning, if it is open

    def begin_forward(*_: Any) -> None:
        nonlocal in_batch
        if not in_batch:
            timer.start(BATCH)
            in_batch = True
        backward.clear()  # a backward pass that raised has no end
        timer.start(FORWARD)

    def end_forward(_: Any, __: Any, output: Any) -> None:
        timer.end(FORWARD)
        for value in tree.tree_leaves(output):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                value.register_hook(begin_backward)  # type: ignore[no-untyped-call]

    def begin_backward(_: Any) -> None:
        if not backward and timer.recording:
            backward.append(timer.moment())
            # Autograd works on threads of its own, and calls this when all of its work is done.
            torch.autograd.Variable._execution_engine.queue_callback(end_backward)

    def end_backward() -> None:
        if backward:
            timer.add(BACKWARD, timer.lane, backward.pop(), timer.moment())

    def end_update(*_: Any) -> None:
        timer.end(UPDATE)
        timer.end(BATCH)
        timer.start(BATCH)

    handles = [
        model.register_forward_pre_hook(begin_forward),
        model.register_forward_hook(end_forward),
        optimizer.register_step_pre_hook(lambda *_: timer.start(UPDATE)),
        optimizer.register_step_post_hook(end_update),
    ]

    def remove() -> None:
        for handle in handles:
            handle.remove()

    return remove
