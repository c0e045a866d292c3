"""The measured command: started, signalled, and its end told as a shell tells it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from types import FrameType
from typing import Callable, Sequence

EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Child:
    """The child process, and the signals that are for it.

    From take_signals() on a signal is the command's: it is passed on, or kept until the command runs, and one that asks
    to end keeps the command from starting. The second one that asks to end kills the child: it had its chance. When
    the child has ended, processes that it left behind are not waited for; a second one then ends jpwr itself.
    """

    def __init__(self, command: Sequence[str], say: Callable[[str], None]) -> None:
        self._command = list(command)
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._kept: list[int] = []  # what came before the process was known
        self._asked_to_end: list[int] = []
        self._ended = False

    def take_signals(self) -> None:
        """Keep and pass on signals from now on; until then they do to this process what they do to any."""
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays in force
                signal.signal(number, self._on_signal)

    @property
    def asked_to_end(self) -> bool:
        """Whether a signal has asked to end, before the command's own end."""
        return bool(self._asked_to_end)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number in ENDING_SIGNALS:
            self._asked_to_end.append(number)
        if self._ended:
            if len(self._asked_to_end) > 1:  # what is left to do does not come to its end
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
        elif self._process is None:
            self._kept.append(number)
        # A Ctrl-C reaches the whole foreground process group: the command has it already.
        elif number != signal.SIGINT or len(self._asked_to_end) > 1 or not _in_foreground():
            self._pass_on(self._process, number)

    def _pass_on(self, process: subprocess.Popen[bytes], number: int) -> None:
        with suppress(ProcessLookupError):
            if len(self._asked_to_end) > 1:
                self._say("asked to end once more: the command is killed")
                self._kept.clear()
                process.kill()
            else:
                process.send_signal(number)

    def check(self) -> int:
        """127, with a word, when there is no such command, else 0: before time is spent on its account."""
        import shutil

        name = self._command[0]
        if shutil.which(name) is None and not os.path.exists(name):  # noqa: PTH110 - pathlib is slower to start
            return self._not_found()
        return 0

    def run(self, environ: dict[str, str]) -> int:
        """Start the command, wait for it, and return its exit code: 128 and the signal when a signal ended it."""
        try:
            return self._run(environ)
        finally:
            self._asked_to_end.clear()
            self._ended = True

    def _run(self, environ: dict[str, str]) -> int:
        if self._asked_to_end:
            return self.not_started()
        try:
            process = subprocess.Popen(self._command, env=environ)
        except FileNotFoundError:
            return self._not_found()
        except OSError as error:
            return self._not_executable(error)
        self._process = process
        # What came while the child was made, it may have missed.
        while self._kept:
            self._pass_on(process, self._kept.pop(0))
        exit_code = process.wait()
        return exit_code if exit_code >= 0 else 128 - exit_code

    def not_started(self) -> int:
        """The exit code, with a word, where a signal has asked to end before the command was started."""
        number = self._asked_to_end[0]
        self._say(f"{signal.Signals(number).name} came before the command was started: it is not started")
        return 128 + number

    def become(self) -> int:
        """Be the command, in place of this process; returns only when that fails."""
        try:
            sys.stdout.flush()
            os.execvp(self._command[0], self._command)
        except FileNotFoundError:
            return self._not_found()
        except OSError as error:
            return self._not_executable(error)

    def _not_found(self) -> int:
        self._say(f"command '{self._command[0]}' was not found: check its spelling and PATH")
        return EXIT_NOT_FOUND

    def _not_executable(self, error: OSError) -> int:
        self._say(
            f"command '{self._command[0]}' cannot be executed ({error.strerror}): is it a program, with its x bit set?"
        )
        return EXIT_NOT_EXECUTABLE


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False
