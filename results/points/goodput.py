"""Share of a training job's time that is useful, if it fails at random and starts again from its last checkpoint.

Daly 2006 (doi:10.1016/j.future.2004.11.016), equation 20: failures are a Poisson process that also strikes while a
checkpoint is written or read. Pure arithmetic; all times are in seconds.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class JobTimes(NamedTuple):
    """Times of a job that saves its state after each interval of work, and goes back to it after a failure."""

    mean_s: float  # between failures of the job
    restart_s: float  # from a failure until the job reads its last checkpoint
    restore_s: float  # until it trains again
    pause_s: float  # that training loses for each checkpoint
    delay_s: float = 0.0  # from the end of the pause until the checkpoint is complete, if it is written meanwhile

    def useful(self, work_s: float) -> float:
        """Return the expected share of time that is useful, with this much work between checkpoints.

        The expected time of an interval is M exp((R + d) / M) (exp((t + p) / M) - 1), for the work t, the pause p, the
        mean time between failures M and the time R until a failed job trains again. The delay d counts as part of R:
        each failure loses the work since a checkpoint began that was complete.
        """
        lost, cycle = self.restart_s + self.restore_s + self.delay_s, work_s + self.pause_s
        share = work_s / self.mean_s * math.exp(-(lost + cycle) / self.mean_s) / -math.expm1(-cycle / self.mean_s)
        return share or math.ulp(0.0)

    @property
    def best_s(self) -> float:
        """Work between checkpoints with the largest useful share; a checkpoint is complete before the next begins.

        The derivative of the share is 0 where t / M = 1 - exp(-(t + p) / M), which Lambert's W solves. If failures are
        rare, it is Young's sqrt(2 M p) (1974, doi:10.1145/361147.361115).
        """
        from scipy.special import lambertw

        above = math.nextafter(-1 / math.e, 0)  # at -1/e, which is that without a pause, there is no number
        best_s = self.mean_s * (1 + float(lambertw(max(above, -math.exp(-1 - self.pause_s / self.mean_s))).real))
        return max(best_s, self.delay_s)

    def best_steps(self, step_s: float) -> int:
        """Return the number of steps between checkpoints with the largest useful share."""
        least = max(1, math.ceil(self.delay_s / step_s))
        near = max(least, math.floor(self.best_s / step_s))
        return max(near, near + 1, key=lambda steps: self.useful(steps * step_s))

    def failure_s(self, work_s: float) -> float:
        """Return the expected time that a failure costs: lost work, restart and restore."""
        return self.mean_s * (1 - self.useful(work_s) * (work_s + self.pause_s) / work_s)

    @property
    def reading_s(self) -> float:
        """Expected time per failure in which the job reads its checkpoint: a failure may cut it, or come before it."""
        begin, end = (math.exp(-after_s / self.mean_s) for after_s in (self.restart_s, self.restart_s + self.restore_s))
        return self.mean_s * (begin - end)
