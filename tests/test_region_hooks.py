"""Training loops of other people: regions by a callback of Keras and by hooks of PyTorch, of the real ones."""

from __future__ import annotations

import pytest

from jpwr.hooks import keras_callback, mark_torch
from jpwr.regions import RegionTimer
from jpwr.regions.times import BATCH
from tests.later import Later

pytestmark = pytest.mark.long

torch, keras, np = Later("torch"), Later("keras"), Later("numpy")


def of_key(timer, key):
    return [span for span in timer.spans() if span.key == key]


@pytest.mark.slow  # TensorFlow starts
def test_keras_marks_epochs_and_batches():
    timer = RegionTimer()
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = np.ones((12, 3)), np.ones((12, 1))
    model.fit(*data, batch_size=4, epochs=2, verbose=0, callbacks=[keras_callback(timer)])
    assert len(of_key(timer, "Epoch")) == 2
    assert len(timer.steps()) == 2 * 3
    assert timer.count() == 2 * len(timer.spans())


@pytest.mark.parametrize("passes", [1, 2])
def test_pytorch_marks_its_passes_and_updates(passes):
    timer = RegionTimer()
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    remove = mark_torch(timer, model, optimizer)
    for _ in range(3):
        for batch in timer.io([torch.ones(2, 4)] * passes):
            model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    remove()
    model(torch.ones(2, 4))
    assert len(of_key(timer, "Forward")) == len(of_key(timer, "Backward")) == 3 * passes
    assert len(of_key(timer, "Update")) == 3
    steps = timer.steps()
    assert len(steps) == 3
    for step in steps:
        assert {"Forward", "Backward", "Update"} <= set(step.own_s)
        assert sum(step.own_s.values()) == pytest.approx(step.duration_s)
    assert timer.count() == 2 * (len(timer.spans()) - 3 * passes) + 1  # the batch after the last one
    ends = [(span.start_s, span.end_s) for span in sorted(of_key(timer, "Backward"))]
    begins = [span.start_s for span in of_key(timer, BATCH)]
    assert all(start_s <= end_s for start_s, end_s in ends)
    assert begins == sorted(begins)
