"""The Python interface of jpwr 0.0.10, with pandas and without."""

from __future__ import annotations

import importlib
import math
import sys
import time

import pytest

from jpwr import ctxmgr
from jpwr.backends import OpenedMethods
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.ctxmgr import get_power
from jpwr.errors import JpwrError, ReadError
from jpwr.tests.conftest import run
from tests.needs import package

OLD_CODE = """
import time
from jpwr.ctxmgr import get_power
{power}
with get_power([{method}], 20) as measured_scope:
    trace = measured_scope.trace
    while trace.series()[0].samples < 5:
        time.sleep(0.01)
energy, additional_data = measured_scope.energy()
times_s = trace.series()[0].times_s
seconds = times_s[-1] - times_s[0]
"""


def lines_of(script, *flags, **variables):
    done = run(sys.executable, *flags, "-c", script, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_old_python_code_measures_with_get_power(nvml_folder):
    package("pandas", "pandas")
    script = OLD_CODE.format(power="from jpwr.gpu.pynvml import power", method="power()")
    script += """
df = measured_scope.df
print(*df.columns, len(df) >= 5, measured_scope.df is df)
passed_s = df["timestamps"].iloc[-1] - df["timestamps"].iloc[0]
print(abs(passed_s / seconds - 1) < 1e-3, abs(energy["pynvml:0"] / (300 * seconds / 3600) - 1) < 1e-3)
print(type(energy).__name__, additional_data)
"""
    variables = {"STAND_IN_SHAPE": "constant", "STAND_IN_DEVICES": "1", "STAND_IN_FAULT": "no-counter"}
    lines = lines_of(script, LD_LIBRARY_PATH=str(nvml_folder), **variables)
    assert lines == ["timestamps pynvml:0 True True", "True True", "Series {}"]


def test_without_pandas_what_was_measured_is_all_there(tmp_path):
    # Without the site's packages, whatever is installed.
    script = (
        OLD_CODE.format(power="", method='"estimate"')
        + """
print(type(energy).__name__, *energy, energy["estimate:cpu"] > 0, additional_data)
try:
    measured_scope.df
except Exception as error:
    print(error)
"""
    )
    energy, sentence = lines_of(script, "-S")
    assert energy == "dict estimate:cpu True {}"
    assert sentence.startswith("df needs pandas: pip install pandas")


@pytest.mark.parametrize("module", ["gpu.pynvml", "gpu.rocm", "ipu.gc", "sys.gh"])
def test_methods_have_the_names_that_they_had(module):
    assert importlib.import_module(f"jpwr.{module}").power().name == module.split(".")[1]


@pytest.fixture
def opened(monkeypatch):
    """Put a reading in place of a method, and what is done when it is closed."""

    def replace(read_power_w, close=lambda: None):
        def open_methods(names, stack):
            stack.callback(close)
            return OpenedMethods([Channel(ChannelInfo("a", Scope.DEVICE, ""), read_power_w)], [])

        monkeypatch.setattr(ctxmgr, "open_methods", open_methods)

    return replace


def broken():
    raise OSError("the library is gone")


@pytest.mark.parametrize("pandas", ["there", "missing"])
def test_an_error_of_the_block_is_reported_as_it_is_and_the_data_stay(opened, monkeypatch, pandas):
    if pandas == "missing":
        monkeypatch.setitem(sys.modules, "pandas", None)
    opened(lambda: 5.0, close=broken)
    measured = get_power(["a"], 20)
    with pytest.raises(ValueError, match="of the block"), measured:
        raise ValueError("of the block")
    [series] = measured.trace.series()
    assert series.samples >= 2
    energy, _ = measured.energy()
    assert energy["a"] == pytest.approx(5.0 * (series.times_s[-1] - series.times_s[0]) / 3600)


def test_where_there_is_a_counter_the_energy_is_by_it(monkeypatch):
    """The sensor sees half of the time, and has the lower power in each sample."""
    begin_s, shown_j = time.monotonic(), []
    info = ChannelInfo("a", Scope.DEVICE, "", has_counter=True, counter_resolution_j=1e-3, counter_refresh_s=1e-3)
    info = info._replace(seen_share=0.5, limit_w=700.0)

    def counter_j():
        shown_j.append(300.0 * (time.monotonic() - begin_s))
        return shown_j[-1]

    counted = Channel(info, lambda: 100.0, counter_j)
    monkeypatch.setattr(ctxmgr, "open_methods", lambda names, stack: OpenedMethods([counted], []))
    with get_power(["a"], 20) as measured:
        while measured.trace.series()[0].samples < 10:
            time.sleep(0.01)
    expected_wh = (shown_j[-1] - shown_j[0]) / 3600
    assert measured.energy()[0]["a"] == pytest.approx(expected_wh, rel=0.2)


def test_a_data_frame_is_there_after_the_block(opened):
    package("pandas", "pandas")
    opened(lambda: 5.0)
    with get_power(["a"], 20) as measured, pytest.raises(JpwrError, match="before the with block has ended"):
        measured.df  # noqa: B018 - it is the looking that is refused
    assert set(measured.df["a"]) == {5.0}


def test_energy_that_was_not_seen_is_missing_and_not_zero(opened):
    def fails():
        raise ReadError("no")

    opened(fails)
    with get_power(["a"], 20) as measured:
        pass
    assert math.isnan(measured.energy()[0]["a"])
