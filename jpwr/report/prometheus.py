"""Server of the latest readings for Prometheus, on the loopback address only."""

from __future__ import annotations

import math
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Sequence

from jpwr.channel import FRESH_S, ChannelInfo
from jpwr.errors import JpwrError
from jpwr.process import threads
from jpwr.trace.trace import Row

ADDRESS = "127.0.0.1"
ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors such as a closed connection."""


class Exporter:
    """Sink that serves the last reading of each channel at /metrics while its block lasts.

    Raises JpwrError if the port cannot be used.
    """

    def __init__(self, infos: Sequence[ChannelInfo], port: int) -> None:
        self._infos = list(infos)
        self._power_w = [math.nan] * len(self._infos)
        self._energy_j = [math.nan] * len(self._infos)
        self._seen_s = [-math.inf] * len(self._infos)
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exporter.text().encode() if self.path == "/metrics" else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Do not log requests."""

        try:
            self._server = _Server((ADDRESS, port), Handler)
        except (OSError, OverflowError) as error:
            raise JpwrError(f"--prometheus {port} cannot be served ({error}): choose another port") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def extend(self, rows: Sequence[Row]) -> None:
        """Keep the last readings of these rows."""
        for time_s, power_w, energy_j, _ in rows:
            for index, power in enumerate(power_w):
                if power is not None:
                    self._power_w[index], self._seen_s[index] = power, time_s
            for index, energy in enumerate(energy_j):
                if energy is not None:
                    self._energy_j[index] = energy

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        """Ignore an event."""

    def text(self) -> str:
        """Return all metrics in Prometheus' text format, without missing and old readings."""
        lines = ["# HELP jpwr_power_watts Power of a channel.", "# TYPE jpwr_power_watts gauge"]
        now_s = time.monotonic()
        fresh_w = [
            power if now_s - seen_s <= max(FRESH_S, 2 * info.period_s) else math.nan
            for info, power, seen_s in zip(self._infos, self._power_w, self._seen_s)
        ]
        lines += self._samples("jpwr_power_watts", fresh_w)
        lines += ["# HELP jpwr_energy_joules_total Energy counter of a channel."]
        lines += ["# TYPE jpwr_energy_joules_total counter"]
        lines += self._samples("jpwr_energy_joules_total", self._energy_j)
        return "\n".join(lines) + "\n"

    def _samples(self, metric: str, values: Sequence[float]) -> Sequence[str]:
        return [
            f"{metric}{{{_labels(info)}}} {value:.6f}"
            for info, value in zip(self._infos, values)
            if not math.isnan(value)
        ]

    def __enter__(self) -> Exporter:
        threads.start(self._thread)
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _labels(info: ChannelInfo) -> str:
    labels: dict[str, str] = {
        "channel": info.name,
        "scope": info.scope.value,
        "device_id": info.device_id,
        "estimated": str(info.estimated).lower(),
    }
    return ",".join(f'{name}="{value.translate(ESCAPED)}"' for name, value in labels.items())
