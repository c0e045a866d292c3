"""Run the measured command, forward signals to it, and report its end as a shell would."""

from __future__ import annotations

import errno
import math
import os
import select
import signal
import time
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Callable, Iterator, Sequence, TypeVar

from jpwr.messages import settle_streams
from jpwr.process.threads import FORWARDED_SIGNALS

EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # PEP 538
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
# timeout(1) signals its child and then its process group, and a terminal that closes sends more than one signal:
# signals within this time are one request to end.
SETTLE_S = 0.2
STDIN = 0
INIT = 1  # process that inherits the children of ended processes, as the first one of a container
_Started = TypeVar("_Started")


class Child:
    """The measured command, in a process group of its own.

    Each signal that jpwr gets is forwarded once to that group, as tini and dumb-init do: whether it was sent to jpwr or
    to jpwr's own group then makes no difference. A signal before the command's start is forwarded after it, except that
    one that asks to end keeps the command from starting. A second request to end kills the group; after the command's
    end, it ends jpwr.

    Where jpwr has the terminal as its stdin, the command's group gets it, and the keys Ctrl-C and Ctrl-Z go there.

    SIGKILL cannot be forwarded: it leaves the command running. A sender that signals every process of a job one by one
    reaches the command twice.
    """

    def __init__(self, command: Sequence[str], log: Callable[[str], None]) -> None:
        self._command = list(command)
        self._log = log
        self._kept: list[int] = []  # signals that arrived before the command was started
        self._last_s: dict[int, float] = {}  # time of the last ending signal, by its number
        self._requests: list[int] = []  # the first signal of each request to end
        self.pid: int | None = None  # of the command and of its group, once it has been started
        self.exit_code: int | None = None  # of the command, once it has one
        self.ended_s: float | None = None  # end of the command, by the monotonic clock

    def take_signals(self) -> None:
        """Handle signals from now on.

        If the parent ignores SIGCHLD, the kernel would discard the exit code.
        """
        signal.signal(signal.SIGCHLD, lambda *_: None)  # with a handler, it wakes the main thread
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as set by nohup
                signal.signal(number, self._on_signal)

    def ignore_signals(self) -> None:
        """Ignore signals from now on: at exit, Python restores their defaults, which could change the exit code."""
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_IGN)

    @property
    def asked_to_end(self) -> bool:
        """Whether a signal has requested the end of the run before the command's own end."""
        return bool(self._requests)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number in ENDING_SIGNALS:
            now_s = time.monotonic()
            if now_s - self._last_s.get(number, -math.inf) < SETTLE_S:
                return
            if now_s - max(self._last_s.values(), default=-math.inf) >= SETTLE_S:
                self._requests.append(number)
            self._last_s[number] = now_s
        if self.exit_code is not None:
            if len(self._requests) > 1:  # end without a report
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
        elif self.pid is None:
            self._kept.append(number)
        else:
            self._forward(self.pid, number)

    def _forward(self, pid: int, number: int) -> None:
        if len(self._requests) > 1:
            self._log("second request to end: the command is killed")
            self._kept.clear()
            number = signal.SIGKILL
        with suppress(ProcessLookupError):
            os.killpg(pid, number)

    def check(self) -> int:
        """Return 127, with a message, if the command does not exist, otherwise 0."""
        name = self._command[0]
        if _program(name, os.F_OK) is None and not os.path.exists(name):  # noqa: PTH110 - pathlib is slower to start
            return self._not_found()
        return 0

    def run(self, environ: dict[str, str]) -> int:
        """Run the command in an environment; return its exit code, or 128 plus the signal that ended it."""
        self.exit_code = self.not_started() if self._requests else self._run(environ)
        self._requests.clear()
        return self.exit_code

    def _run(self, environ: dict[str, str]) -> int:
        with _woken_by_signals() as wait:
            try:
                # Descriptors that jpwr inherited, such as a shell's <(...), stay open; its own are closed on exec.
                pid = _as_shells_do(
                    lambda program, command: os.posix_spawn(
                        program, command, environ, setpgroup=0, setsigdef=IGNORED_BY_PYTHON
                    ),
                    self._command,
                )
            except FileNotFoundError:
                return self._not_found()
            except OSError as error:
                return self._not_executable(error)
            _give_terminal(pid)
            self.pid = pid
            while self._kept:
                self._forward(pid, self._kept.pop(0))
            while True:
                ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
                if ended and not os.WIFSTOPPED(status):
                    break
                if ended and _foreground() is not None:
                    _stop_with(pid)
                else:
                    wait()
                    if os.getpid() == INIT:
                        _reap_inherited(pid)
            self.ended_s = time.monotonic()
        _take_terminal(pid)
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def not_started(self) -> int:
        """Return the exit code, with a message, after a request to end before the command's start."""
        number = self._requests[0]
        self._requests.clear()
        self._log(f"{signal.Signals(number).name} arrived before the command's start: the command is not started")
        return 128 + number

    def become(self) -> int:
        """Replace this process by the command; return an exit code only if that fails."""
        try:
            settle_streams()
            for number in IGNORED_BY_PYTHON:
                signal.signal(number, signal.SIG_DFL)
            try:
                environ = given_environ()
                _as_shells_do(lambda program, command: os.execvpe(program, command, environ), self._command)
            finally:  # exec failed: a closed stderr must not change the exit code
                for number in IGNORED_BY_PYTHON:
                    signal.signal(number, signal.SIG_IGN)
        except FileNotFoundError:
            return self._not_found()
        except OSError as error:
            return self._not_executable(error)

    def _not_found(self) -> int:
        if _program(self._command[0]):
            self._log(f"command '{self._command[0]}' cannot be executed: install the interpreter in its first line")
        else:
            self._log(f"command '{self._command[0]}' was not found: check its spelling and PATH")
        return EXIT_NOT_FOUND

    def _not_executable(self, error: OSError) -> int:
        hint = ": is it a program, and executable?" if error.errno in (errno.EACCES, errno.ENOEXEC) else ""
        self._log(f"command '{self._command[0]}' cannot be executed ({error.strerror}){hint}")
        return EXIT_NOT_EXECUTABLE


def _program(name: str, mode: int = os.F_OK | os.X_OK) -> str | None:
    """Return the path of a command, or None."""
    import shutil

    found = shutil.which(name, mode)
    # A result from an empty entry of PATH has no folder, and would be searched for again.
    return found if found is None or "/" in found else f"./{found}"


def _as_shells_do(start: Callable[[str, list[str]], _Started], command: list[str]) -> _Started:
    """Start a command; run a script without an interpreter line by sh, as execvp(3), env and shells do."""
    if not command[0]:
        raise FileNotFoundError
    program = _program(command[0]) or command[0]
    try:
        return start(program, command)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    return start("/bin/sh", ["/bin/sh", program, *command[1:]])


def given_environ() -> dict[str, str]:
    """Return this process's environment without the LC_CTYPE that Python sets if there is no locale."""
    environ = dict(os.environ)
    with suppress(OSError), open("/proc/self/environ", "rb") as file:
        if environ.get("LC_CTYPE") in COERCED and b"\0LC_CTYPE=" not in b"\0" + file.read():
            del environ["LC_CTYPE"]
    return environ


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
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - pathlib is slower to start
        with suppress(OSError), open(f"/proc/{name}/stat", encoding="latin-1") as file:
            state, parent, group = file.read().rpartition(")")[2].split()[:3]
            is_ours = int(name) == command or int(group) == os.getpgrp()
            if state == "Z" and int(parent) == os.getpid() and not is_ours:
                os.waitpid(int(name), os.WNOHANG)


def _foreground() -> int | None:
    """Return the process group in the foreground of stdin, or None if that is not our terminal."""
    try:
        return os.tcgetpgrp(STDIN)
    except OSError:
        return None


def _give_terminal(pid: int) -> None:
    """Make the command's group the foreground of the terminal if this process is in the foreground."""
    if _foreground() == os.getpgrp():
        _set_foreground(pid)
        os.killpg(pid, signal.SIGCONT)  # it may have tried to read the terminal before


def _take_terminal(pid: int) -> None:
    """Undo _give_terminal."""
    if _foreground() == pid:
        _set_foreground(os.getpgrp())


def _set_foreground(group: int) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])  # would stop a caller in the background
    try:
        with suppress(OSError):  # the terminal has been closed
            os.tcsetpgrp(STDIN, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop_with(pid: int) -> None:
    """Stop this process after the command was stopped; let the command continue when the shell continues this one."""
    _take_terminal(pid)
    os.kill(0, signal.SIGTSTP)
    _give_terminal(pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGCONT)
