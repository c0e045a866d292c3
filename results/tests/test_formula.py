from __future__ import annotations

import math

import pytest

from results.find.records import RecordError
from results.verdicts.formula import Formula


@pytest.mark.parametrize(
    ("text", "values", "wanted"),
    [
        ("7.19 / R + 9.05 / B", {"R": 2.0, "B": 5.0}, 7.19 / 2 + 9.05 / 5),
        ("-(R - B) ** 2", {"R": 2.0, "B": 5.0}, -9.0),
        ("log(R, 2) + max(log(B, 10), R, B, 1)", {"R": 8.0, "B": 3.0}, 3 + 8),
        ("min(R, B, 3) + max(R, 1) * sqrt(B) - log(R)", {"R": 2.0, "B": 4.0}, 2 + 2 * 2 - math.log(2)),
    ],
)
def test_arithmetic_of_terms(text, values, wanted):
    formula = Formula(text, tuple(values), "file")
    assert formula(values) == pytest.approx(wanted)
    step = 1e-4
    for name, slope in formula.slopes(values).items():
        ends = [formula({**values, name: values[name] * math.exp(sign * step)}) for sign in (-1, 1)]
        assert slope == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os').system('true') + R", "is not one of numbers, terms"),
        ("R.real", "'R.real' is not one of"),
        ("eval(R)", "is not one of"),
        ("R + X", "it has no term 'X': choose one of R"),
        ("R + 'a'", "is not one of"),
        ("R + True", "is not one of"),
        ("R % 2", "'Mod' is not one of"),
        ("min() + R", "min expected at least 1 argument, got 0"),
        ("log(R, R, R)", "math.log requires 1 to 2 arguments"),
        ("max(*R, R)", "'*R' is not one of"),
        ("R +", "is not a formula: invalid syntax"),
        ("", "is not a formula"),
        ("R\x00", "is not a formula"),
        ("R + 1e999", "'1e309' is not one of"),
        (f"R + {9:9<400}", "int too large"),
        ("(" * 500 + "R" + ")" * 499, "is not a formula"),
        ("R".rjust(1001), "it has more than 1000 characters"),
        ("3 + 4", "does not use R"),
    ],
)
def test_what_is_no_arithmetic_is_refused_and_never_run(text, message):
    with pytest.raises(RecordError, match=r"^file: ") as error:
        Formula(text, ("R",), "file")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not str(error.value).endswith(("None", "(<unknown>, line 1)"))


@pytest.mark.parametrize("text", ["1 / (R - 1)", "9 ** 9 ** 9 ** R", "(0 - R) ** 0.5", "log(0 * R)", "sqrt(-R)"])
def test_what_has_no_value_is_nan(text):
    assert math.isnan(Formula(text, ("R",), "file")({"R": 1.0}))
