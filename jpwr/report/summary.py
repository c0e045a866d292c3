"""Results of a run, per channel and region."""

from __future__ import annotations

import math
from typing import Any

from jpwr.channel import ChannelInfo
from jpwr.energy import EnergyEstimate
from jpwr.energy.estimate import JOULES_PER_WH, known
from jpwr.messages import short
from jpwr.report.notes import first_of, notes
from jpwr.report.sums import Sums

HEADER = ("channel", "samples", "missing", "avg W", "peak W", "Wh", "+- Wh", "counter Wh", "differs", "")
MANY = 20  # most regions in the table


class Summary(Sums):
    """Energy and power of a complete trace, as text and for JSON."""

    def notes(self) -> list[str]:
        """Return notes on the limits of the numbers, one sentence each."""
        return notes(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON: units in the keys, unknown values null."""
        return {
            "interval_s": self.interval_s,
            "random_phase": bool(self.trace.meta.get("random_phase")),
            "channels": [
                {
                    **_channel(info, estimate),
                    "peak_power_w": known(peak_w),
                    "idle_power_w": known(idle_w),
                    "largest_gap_s": None if estimate.unknown else estimate.largest_gap_s,
                }
                for info, estimate, peak_w, idle_w in zip(
                    self.infos, self.command, self.peak_power_w, self.idle_power_w
                )
            ],
            "regions": [
                {
                    "region": region.name,
                    "count": region.times,
                    "duration_s": region.duration_s,
                    "channels": [_channel(info, estimate) for info, estimate in zip(self.infos, region.estimates)],
                }
                for region in self.regions.values()
            ],
            "notes": self.notes(),
        }

    def lines(self) -> list[str]:
        """Return the lines of a table for a person."""
        rows: list[tuple[str, ...]] = [HEADER]
        for info, estimate, peak_w in zip(self.infos, self.command, self.peak_power_w):
            rows.append(_row(info.name, info, estimate, f"{peak_w:.1f}"))
        shown = list(self.regions.values())
        if len(shown) > MANY:
            shown = sorted(shown, key=lambda region: -region.duration_s)[:MANY]
        for region in shown:
            times = f" x {region.times}" if region.times > 1 else ""
            rows.append((f"region '{short(region.name)}'{times}, {region.duration_s:.3f} s", *[""] * (len(HEADER) - 1)))
            rows += [_row(f"  {info.name}", info, estimate, "") for info, estimate in zip(self.infos, region.estimates)]
        left = len(self.regions) - len(shown)
        # The title of a region may be longer than the column, because the rest of its row is empty.
        widths = [max(len(row[i]) for row in rows if i or not row[0].startswith("region")) for i in range(len(HEADER))]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        lines += self._components()
        return lines + [f"and {left} shorter regions, which the summary as JSON has"] * bool(left)

    def _components(self) -> list[str]:
        """Components of the command's uncertainty in percent, one line for all channels of one accuracy."""
        groups: dict[tuple[float, str], list[tuple[ChannelInfo, EnergyEstimate]]] = {}
        for info, estimate in zip(self.infos, self.command):
            if not estimate.unknown and estimate.energy_j:
                groups.setdefault((info.accuracy, info.accuracy_from), []).append((info, estimate))
        lines = []
        for (accuracy, source), members in groups.items():
            random_percent = max(100 * one.random_j / abs(one.energy_j) for _, one in members)
            systematic_percent = max(100 * one.systematic_j / abs(one.energy_j) for _, one in members)
            sensor = f"±{100 * accuracy:.2g} % ({source})" if accuracy else "not stated"
            lines.append(
                f"{first_of([info for info, _ in members])}: +- by sampling: random ±{random_percent:.2g} %, "
                f"systematic ±{systematic_percent:.2g} %; accuracy of the sensor: {sensor}"
            )
        return lines


def _row(title: str, info: ChannelInfo, estimate: EnergyEstimate, peak: str) -> tuple[str, ...]:
    remarks = [word for word, applies in (("ESTIMATED", info.estimated), ("not mine", not info.mine)) if applies]
    if estimate.unknown:
        return (title, *["-"] * 8, ", ".join(["too few samples", *remarks]))
    known = not math.isnan(estimate.difference)
    return (
        title,
        str(estimate.samples),
        str(estimate.missing),
        f"{estimate.avg_power_w:.1f}",
        peak,
        f"{estimate.energy_j / JOULES_PER_WH:.4g}",
        f"{estimate.uncertainty_j / JOULES_PER_WH:.2g}",
        "-" if math.isnan(estimate.counter_j) else f"{estimate.counter_j / JOULES_PER_WH:.4g}",
        f"{100 * estimate.difference:+.1f} %" if known else "-",
        ", ".join([f"by {estimate.method}", *remarks]),
    )


def _channel(info: ChannelInfo, estimate: EnergyEstimate) -> dict[str, Any]:
    known_wh = {**estimate.in_wh(), "reason": estimate.reason, "avg_power_w": estimate.avg_power_w}
    return {**info.described(), "mine": info.mine, **({"energy_wh": None} if estimate.unknown else known_wh)}
