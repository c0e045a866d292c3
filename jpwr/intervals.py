"""Statistics of intervals, each with its source."""

from __future__ import annotations

from math import hypot, inf, sqrt
from typing import Sequence

Numbers = Sequence[float]
LEVEL = 0.95  # of every stated interval
NORMAL_95 = 1.959964  # standard uncertainties in a half-width at 95 %
BOUND = sqrt(3)  # standard uncertainties in a bound (JCGM 100:2008, 4.3.7)
# Level at which counter and integral are called inconsistent. Each device of each run is tested: at 0.95, one sound
# counter in twenty would be rejected.
TEST_LEVEL = 0.999
# Half-widths of two-sided intervals of the normal distribution, by statistics.NormalDist, which takes 3 ms to load.
NORMAL = {LEVEL: 1.9599639845400536, TEST_LEVEL: 3.2905267314919255}
# Wilks, Ann. Math. Stat. 12 (1941) 91, with 95 % confidence: the lowest and the highest of n samples enclose 95 % of
# the distribution if 1 - n 0.95^(n-1) + (n-1) 0.95^n >= 0.95, and the highest exceeds 95 % of it if 1 - 0.95^n >= 0.95.
SAMPLES_FOR_A_RANGE, SAMPLES_FOR_A_PEAK = 93, 59
# As a share of the reading, if the channel states none. NVIDIA documents +-5 % for its Fermi and Kepler boards only
# (NVML reference, nvmlDeviceGetPowerUsage); for other sensors it is an assumption.
ASSUMED_ACCURACY = 0.05


def students_t(level: float, freedom: float) -> float:
    """Return the half-width of Student's two-sided interval, in standard deviations.

    Abramowitz and Stegun, 26.7.5: below the exact value by 1 % at three degrees of freedom, 3 % at two, 24 % at one.
    """
    if freedom <= 0:
        return inf
    z = NORMAL[level]
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    n = max(1.0, freedom)
    return z + first / n + second / n**2 + third / n**3


def missed_share(samples: float) -> float:
    """Return the largest share of the time that so many random samples all miss with a probability of 5 %.

    The rule of three without its approximation: Hanley and Lippman-Hand, JAMA 249 (1983) 1743.
    """
    return 1 - (1 - LEVEL) ** (1 / samples) if samples > 0 else 1.0


def with_accuracy(half: float, bound: float) -> float:
    """Add a bound, as a standard uncertainty with k = 2, to a half-width."""
    return hypot(half, 2 * bound / BOUND)
