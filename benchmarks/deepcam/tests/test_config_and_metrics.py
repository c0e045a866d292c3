from __future__ import annotations

import pytest

from benchmarks.deepcam.train import main


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--size", "100x100"], "argument --size: there is no '100x100': choose one of"),
        (["--data", "deepcam", "--data-dir", "{tmp}"], "has no files *.h5, and neither has a folder train in it"),
        (["--data", "deepcam", "--data-dir", "{tmp}/alone"], "there is no stats.h5 in"),
        (["--global-batch-size", "3", "--micro-batch-size", "2"], "is not a multiple of micro_batch_size"),
        (["--device", "ipu"], "--device ipu was asked for, but deepcam does not run on IPUs"),
        (["--device", "gpu"], "--device gpu was asked for, but PyTorch shows none"),
    ],
)
def test_bad_options_are_one_clear_sentence(flags, message, tmp_path, capsys):
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "data-1.h5").touch()
    record = ["--record", str(tmp_path / "record.json")]
    assert main([*record, *(flag.format(tmp=tmp_path) for flag in flags)]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
