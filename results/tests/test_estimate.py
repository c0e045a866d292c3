from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
from scipy import stats

from jpwr import intervals as series
from results.points.estimate import Part, exactly, of_runs, product, students_t, trimmed_mean


def test_a_ratio_has_welchs_interval_of_the_logarithms():
    ours, theirs = [103.0, 99.0, 101.5, 97.0], [52.0, 49.0, 50.5]
    ratio = of_runs(ours) / of_runs(theirs)
    wanted = stats.ttest_ind(np.log(ours), np.log(theirs), equal_var=False).confidence_interval(0.95)
    low, high = map(math.log, ratio.interval)
    assert high - low == pytest.approx(wanted.high - wanted.low, rel=1e-12)
    assert ratio.value == pytest.approx(statistics.median(ours) / statistics.median(theirs))


@pytest.mark.parametrize("runs", [3, 4, 5, 8, 10])
def test_the_interval_of_runs_has_its_value_inside_and_holds_the_truth_in_95_of_100(runs):
    chance, held = random.Random(runs), 0
    for _ in range(2000):
        estimate = of_runs([math.exp(chance.gauss(0, 0.02)) for _ in range(runs)])
        low, high = estimate.interval
        held += low <= 1 <= high
        assert low <= estimate.value <= high
    assert 0.935 <= held / 2000 <= 0.985
    low, high = of_runs([1.0] * 6 + [1.5] * 4).interval
    assert low < 1.0 < high


def test_errors_of_one_source_add_up_in_a_product_and_cancel_in_a_ratio():
    ours, theirs = (of_runs([value] * 3, [Part(0.03, source=source)]) for value, source in ((2.0, "a"), (3.0, "b")))
    same = of_runs([3.0] * 3, [Part(0.03, source="a")])
    assert (ours / same).interval == pytest.approx((2 / 3, 2 / 3))
    half = students_t(math.inf)
    assert math.log((ours * same).interval.high / 6) == pytest.approx(0.06 * half)
    for points in (1, 4, 100):  # more points make no sensor more accurate
        mean = product((ours / theirs, 1 / points) for _ in range(points))
        assert math.log(mean.interval.high * 1.5) == pytest.approx(math.hypot(0.03, 0.03) * half)


def test_one_run_tells_of_no_spread_and_neither_does_what_follows_from_it():
    assert of_runs([5.0]).interval is None
    assert (of_runs([5.0]) / of_runs([4.0, 4.1])).interval is None
    assert (exactly(2.0) * of_runs([3.0, 3.0])).interval == (6.0, 6.0)


def test_the_trimmed_mean_is_what_a_tender_says():
    minutes = [12.0, 9.0, 10.0, 11.0, 50.0]
    found = trimmed_mean(minutes, 1, 1)
    assert found.value == pytest.approx(11.0)
    drawn_in = [10.0, 10.0, 11.0, 12.0, 12.0]
    error = statistics.stdev(drawn_in) / (0.6 * math.sqrt(5)) / 11
    half = stats.t.ppf(0.975, 2) * error
    assert found.interval == pytest.approx((11 * math.exp(-half), 11 * math.exp(half)))
    assert trimmed_mean([9.0, 10.0, 50.0], 1, 1).interval is None
    with pytest.raises(ValueError, match="leave none"):
        trimmed_mean([9.0, 10.0], 1, 1)
    for values in ([0.0, 9.0, 10.0, 11.0], [-1.0, 9.0, 10.0, 11.0]):
        with pytest.raises(ValueError, match="leave none"):
            trimmed_mean(values, 1, 1)
    assert trimmed_mean([1e-9], 0, 0).value == 1e-9
    low, high = trimmed_mean([10.0] * 5, 1, 1, [Part(0.03 / 1.96)]).interval
    assert (low, high) == pytest.approx((10 * math.exp(-0.03), 10 * math.exp(0.03)), rel=1e-4)
    low, high = trimmed_mean([8.0, 9.0, 11.0, 12.0], 1, 1).interval
    assert low < 10 < high


def test_the_suites_two_students_t_agree_to_the_two_digits_of_an_uncertainty():
    for freedom in range(4, 31):
        exact = students_t(freedom)
        assert f"{series.students_t(0.95, freedom):.2g}" == f"{exact:.2g}"
    assert f"{students_t(math.inf):.7g}" == f"{series.NORMAL_95:.7g}"
