from __future__ import annotations

import pytest

from jpwr.median import percentile


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (50, 2.5), (100, 4.0), (5, 1.15)])
def test_a_percentile_is_interpolated_as_numpy_does(percent, expected):
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == pytest.approx(expected)


def test_a_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="a percentile needs at least one value"):
        percentile([], 50)
