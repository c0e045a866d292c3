"""Run the measured command, forward signals to it, and report its end as a shell would."""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Callable, Iterator, Sequence

from jpwr.messages import settle_streams
from jpwr.process.threads import FORWARDED_SIGNALS
from jpwr.process.tree import processes

EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
# timeout(1) signals its child and then its process group: the same signal within this time is one.
SETTLE_S = 0.2
STDIN = 0
INIT = 1  # process that inherits the children of ended processes, as the first one of a container


class Child:
    """The measured command; signals to jpwr are forwarded to it until it ends.

    It is a process group of its own, so that it gets a signal to jpwr's group once, and its own children get each
    signal, too. At a terminal it is in jpwr's group, for the terminal to send Ctrl-C and Ctrl-Z to both and to let the
    command read.
    """

    def __init__(self, command: Sequence[str], log: Callable[[str], None]) -> None:
        self._command = list(command)
        self._log = log
        self._at_terminal = os.isatty(STDIN)
        self._arrived: list[int] = []  # signals that are not forwarded yet
        self._last_s: dict[int, float] = {}  # time of each signal
        self.pid: int | None = None  # once it has been started
        self.exit_code: int | None = None  # once it has ended
        self.ended_s: float | None = None  # by the monotonic clock

    def take_signals(self) -> None:
        """Handle signals from now on, except those that nohup or a shell ignores."""
        signal.signal(signal.SIGCHLD, lambda *_: None)  # where it is ignored, the kernel would discard the exit code
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s.get(number, -SETTLE_S) >= SETTLE_S:
            self._arrived.append(number)
        self._last_s[number] = now_s

    @property
    def asked_to_end(self) -> bool:
        """Whether a signal has requested the end of the run."""
        return any(number in ENDING_SIGNALS for number in self._arrived)

    def check(self) -> int:
        """Return 127, with a message, if the command does not exist, otherwise 0."""
        name = self._command[0]
        return 0 if shutil.which(name, os.F_OK) else self._not_started(FileNotFoundError())

    def run(self, environ: dict[str, str]) -> int:
        """Run the command in an environment; return its exit code, or 128 plus the signal that ended it.

        From then on, signals are ignored, so that none ends the report or changes the exit code.
        """
        self.exit_code = self._not_asked_for() if self.asked_to_end else self._run(environ)
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_IGN)
        return self.exit_code

    def _not_asked_for(self) -> int:
        number = next(number for number in self._arrived if number in ENDING_SIGNALS)
        self._log(f"{signal.Signals(number).name} arrived before the command's start: the command is not started")
        return 128 + number

    def _run(self, environ: dict[str, str]) -> int:
        group = os.getpgrp() if self._at_terminal else 0  # 0: a new one
        with _woken_by_signals() as wait:
            try:
                # Descriptors that jpwr inherited, such as a shell's <(...), stay open; its own are closed on exec.
                pid = self.pid = os.posix_spawnp(
                    self._command[0], self._command, environ, setpgroup=group, setsigdef=IGNORED_BY_PYTHON
                )
            except OSError as error:
                return self._not_started(error)
            while True:
                while self._arrived:
                    self._forward(pid, self._arrived.pop(0))
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    break
                wait()
                if os.getpid() == INIT:
                    _reap_inherited(pid)
            self.ended_s = time.monotonic()
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _forward(self, pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            if not self._at_terminal:
                os.killpg(pid, number)
            elif number not in (signal.SIGINT, signal.SIGQUIT):  # its keys have reached the command, too
                os.kill(pid, number)

    def become(self) -> int:
        """Replace this process by the command; return an exit code only if that fails."""
        settle_streams()
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvp(self._command[0], self._command)
        except OSError as error:
            for number in IGNORED_BY_PYTHON:  # a closed stderr must not change the exit code
                signal.signal(number, signal.SIG_IGN)
            return self._not_started(error)

    def _not_started(self, error: OSError) -> int:
        name = self._command[0]
        if isinstance(error, FileNotFoundError):
            exists = shutil.which(name)
            why = "cannot be executed: install the interpreter in its first line"
            self._log(f"command '{name}' {why if exists else 'was not found: check its spelling and PATH'}")
            return EXIT_NOT_FOUND
        self._log(f"command '{name}' cannot be executed ({error.strerror}): is it a program, and executable?")
        return EXIT_NOT_EXECUTABLE


@contextmanager
def _woken_by_signals() -> Iterator[Callable[[], None]]:
    """Yield a function that waits for the next signal, even if it arrives before the wait or in another thread.

    Only a signal to the main thread interrupts its system call; Python's wakeup pipe is written to in any case.
    """
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poll = select.poll()  # select(2) is limited to descriptors below 1024
    poll.register(woken, select.POLLIN)

    def wait() -> None:
        poll.poll()
        os.read(woken, 4096)

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wake)


def _reap_inherited(command: int) -> None:
    """Reap the ended processes that this one has inherited; jpwr waits for those of its own group elsewhere."""
    for process in processes():
        is_ours = process.pid == command or process.group == os.getpgrp()
        if process.state == "Z" and process.parent == os.getpid() and not is_ours:
            os.waitpid(process.pid, os.WNOHANG)
