"""Process that changes limits for a sampler, outlives it, and restores them whatever happens to the sampler.

It also reports at once if another program changes them.

The sampler holds the only other end of this process's stdin: the kernel closes it with the sampler, however that ends.
The process has a session of its own and blocks signals, so that only SIGKILL ends it; then the next sampler restores.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Iterator, Mapping

from jpwr.errors import JpwrError
from jpwr.limits.hold import Hold, open_settings, recover
from jpwr.messages import log
from jpwr.process.threads import blocked_signals, within

START_S = 90.0  # a driver may have to initialise many devices first
RESTORE_S = 10.0
WATCH_S = 1.0  # between two checks that the limits hold, as between those of a device's status
NO_ANSWER = b'{"error": "the process that sets limits does not answer"}'


@contextmanager
def guarded(asked: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """Keep limits in force during the block, and yield them for the trace; raise JpwrError if they cannot be."""
    # With the sampler's own path: -m would first look into the working directory, whose files may be anybody's.
    start = f"import sys; sys.path[:] = {sys.path!r}; from jpwr.limits.guardian import main; sys.exit(main())"
    command = [sys.executable, "-c", start, json.dumps(asked)]
    with blocked_signals():
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdin and process.stdout
    lines: list[bytes] = []
    try:
        within(START_S, lambda: lines.append(process.stdout.readline()))  # type: ignore[union-attr]
        if lines:  # otherwise the reading thread has it
            process.stdout.close()
        answer = json.loads((lines and lines[0]) or NO_ANSWER)
        if "error" in answer:
            raise JpwrError(answer["error"])
        yield answer["limits"]
    finally:
        with suppress(OSError):
            os.write(process.stdin.fileno(), b"!")  # it is not killed, but ends
        process.stdin.close()
        try:
            was_killed = process.wait(RESTORE_S) < 0
        except subprocess.TimeoutExpired:
            log(f"process {process.pid} is still restoring limits")
        else:
            if was_killed:
                log("the process that restores limits was killed")
                recover()


def main() -> int:
    """Change the limits that the argument names, and restore them at the end of stdin; return 1 if that fails."""
    answers = os.dup(1)
    with suppress(OSError):  # without stderr
        os.dup2(2, 1)  # whatever a vendor's library prints is no answer
    with ExitStack() as stack:
        try:
            held = Hold(json.loads(sys.argv[1]), open_settings(stack))
        except Exception as error:  # a vendor's library may raise anything
            _answer(answers, error=str(error) if isinstance(error, JpwrError) else f"{type(error).__name__}: {error}")
            return 1
        _answer(answers, limits=held.described)
        while not select.select([0], [], [], WATCH_S)[0]:
            for words in held.changed():
                log(words)
        has_ended = os.read(0, 1)
        left = held.restore()
    for words in left:
        log(words)
    if not has_ended:
        log("the sampler was killed" + ("" if left else ": what limited its devices before is restored"))
    return 1 if left else 0


def _answer(answers: int, **values: Any) -> None:
    with suppress(OSError):  # the sampler has been killed
        os.write(answers, (json.dumps(values) + "\n").encode())
