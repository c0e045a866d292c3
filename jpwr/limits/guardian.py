"""Process that changes limits for a sampler, outlives it, and restores them whatever happens to the sampler.

The sampler holds the only other end of this process's stdin: the kernel closes it with the sampler, however that ends.
The process has a session of its own and blocks signals, so that only SIGKILL ends it; then the next sampler restores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Mapping

from jpwr.errors import JpwrError
from jpwr.limits.hold import Hold, open_settings, recover
from jpwr.limits.kept import names
from jpwr.messages import log
from jpwr.process.threads import blocked_signals, within

START_S = 90.0  # a driver may have to initialise many devices first
RESTORE_S = 10.0
ENDED = b"ended\n"


def recover_left_behind() -> None:
    """Restore what killed samplers and their guardians left changed, if there is a file of one."""
    if names():
        within(START_S, recover)


class Guardian:
    """Limits that are in force during the block; `described` has them for the trace.

    Raises JpwrError if they cannot be put in force.
    """

    def __init__(self, asked: Mapping[str, str]) -> None:
        self._asked = dict(asked)
        self.described: list[dict[str, Any]] = []

    def __enter__(self) -> Guardian:
        command = [sys.executable, "-m", "jpwr.limits.guardian", json.dumps(self._asked)]
        with blocked_signals():
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        lines: list[bytes] = []
        stdout = self._process.stdout
        assert stdout is not None
        try:
            within(START_S, lambda: lines.append(stdout.readline()))
            answer: Any = (
                json.loads(lines[0]) if lines and lines[0] else {"error": "the limits cannot be set: no answer"}
            )
            if "error" in answer:
                raise JpwrError(answer["error"])
        except BaseException:
            self._end()
            raise
        self.described = answer["limits"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._end() < 0:
            log("the process that restores limits was killed")
            recover()

    def _end(self) -> int:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(OSError):
            stdin.write(ENDED)
            stdin.flush()
        with suppress(OSError):
            stdin.close()
        try:
            return self._process.wait(RESTORE_S)
        except subprocess.TimeoutExpired:
            log(f"process {self._process.pid} is still restoring limits")
            return 0


def described_by_scheduler(asked: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return limits that another program has set, for the trace; raise JpwrError unless they are in force."""
    with ExitStack() as stack:
        return Hold(asked, open_settings(stack), by_jpwr=False).described


def main() -> int:
    """Change the limits that the argument names, and restore them at the end of stdin; return 1 if that fails."""
    with ExitStack() as stack:
        try:
            held = Hold(json.loads(sys.argv[1]), open_settings(stack))
        except Exception as error:
            words = str(error) if isinstance(error, JpwrError) else f"{type(error).__name__}: {error}"
            _answer({"error": words})
            return 1
        try:
            _answer({"limits": held.described})
            has_ended = os.read(0, len(ENDED))
        finally:
            left = held.restore()
            for words in left:
                log(words)
        if not has_ended:
            log("the sampler was killed" + ("" if left else ": what limited its devices before is restored"))
    return 1 if left else 0


def _answer(values: Mapping[str, Any]) -> None:
    with suppress(OSError):  # the sampler has been killed
        os.write(1, (json.dumps(values) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
