from __future__ import annotations

import pytest

from benchmarks.cosmoflow.train import main


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--size", "48"], "size must be one of 32, 64, 128, got 48"),
        (["--dropout", "1"], "dropout and momentum must be from 0 to below 1"),
        (["--device", "ipu"], "--device ipu was asked for, but cosmoflow does not run on IPUs"),
    ],
)
def test_bad_options_are_one_clear_sentence(flags, message, capsys):
    assert main(flags) == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.splitlines()) == 1
