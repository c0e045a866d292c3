"""The measured command: started, signalled, and its end told as a shell tells it."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Callable, Sequence, TypeVar

from jpwr.say import settle_streams
from jpwr.threads import FORWARDED_SIGNALS, blocked_signals, start

EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # PEP 538
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
# Who ends a job may signal its process and then its group, as timeout(1) does, or one process after the other, as some
# schedulers do: for so long, it is one request.
SETTLE_S = 0.2
_Started = TypeVar("_Started")


class Child:
    """The child process, and the signals that are for it: each reaches it once.

    From take_signals() on a signal is the command's: it is passed on, or kept until the command runs, and one that asks
    to end keeps the command from starting. A signal that was sent to the process group, or to all processes of the job,
    has reached the child already and is not passed on; see Witness. The second one that asks to end kills the child:
    it had its chance. When the child has ended, processes that it left behind are not waited for; a second one then
    ends jpwr itself.

    Not covered: a signal may come twice where there is no `cat`, where it comes to the group while the child is made,
    where who signals one process after the other takes longer than SETTLE_S, or does so to a child that has left the
    process group. The same signal more than once within SETTLE_S may reach the child once.
    """

    def __init__(self, command: Sequence[str], say: Callable[[str], None]) -> None:
        self._command = list(command)
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._witness: Witness | None = None
        self._kept: list[int] = []  # what came before the process was known
        self._weighed: set[int] = set()  # of these it is being found out whether they have reached the child
        self._last_s: dict[int, float] = {}  # when each came that asks to end
        self._asked_to_end: list[int] = []
        self.exit_code: int | None = None  # of the command, once it has one
        self.ended_s: float | None = None  # when it ended, by the monotonic clock

    def take_signals(self) -> None:
        """Keep and pass on signals from now on; until then they do to this process what they do to any.

        Where whoever started jpwr ignores the end of children, the kernel would keep the exit code to itself.
        """
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays in force
                signal.signal(number, self._on_signal)

    def ignore_signals(self) -> None:
        """When all is done: Python's own end would give signals back what they do to any, and change the exit code."""
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_IGN)

    @property
    def pid(self) -> int | None:
        """Of the command, once it has been started."""
        return self._process.pid if self._process else None

    @property
    def asked_to_end(self) -> bool:
        """Whether a signal has asked to end, before the command's own end."""
        return bool(self._asked_to_end)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number in ENDING_SIGNALS:
            now_s = time.monotonic()
            if now_s - self._last_s.get(number, -math.inf) < SETTLE_S:
                return
            # Several that come together, as when a terminal is closed, ask once.
            # No loop of Python's own here: another handler may run inside of it.
            is_another = now_s - max(self._last_s.values(), default=-math.inf) >= SETTLE_S
            self._last_s[number] = now_s
            if is_another or not self._asked_to_end:
                self._asked_to_end.append(number)
        if self.exit_code is not None:
            if len(self._asked_to_end) > 1:  # what is left to do does not come to its end
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
        elif self._process is None:
            self._kept.append(number)
        elif len(self._asked_to_end) > 1:
            self._kill(self._process)
        elif number not in self._weighed:
            self._weighed.add(number)
            begun_s = time.monotonic()
            reached = self._witness is not None and self._witness.has_got(number)
            self._weighed.discard(number)
            # Another that came meanwhile may be told of only now: this time does not part the two.
            now_s = time.monotonic()
            for each, last_s in list(self._last_s.items()):
                self._last_s[each] = min(now_s, last_s + now_s - begun_s)
            if not reached or not _is_in_our_group(self._process):
                self._pass_on(self._process, number)

    def _pass_on_kept(self, process: subprocess.Popen[bytes], witness: Witness) -> None:
        """What came while the child was made, it may have missed, also where the witness got it."""
        if len(self._asked_to_end) > 1:
            self._kept.clear()
            self._kill(process)
        while self._kept:
            self._pass_on(process, self._kept.pop(0))
        witness.forget()

    def _pass_on(self, process: subprocess.Popen[bytes], number: int) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        self._say("asked to end once more: the command is killed")
        with suppress(ProcessLookupError):
            process.kill()

    def check(self) -> int:
        """127, with a word, when there is no such command, else 0: before time is spent on its account."""
        name = self._command[0]
        if _program(name, os.F_OK) is None and not os.path.exists(name):  # noqa: PTH110 - pathlib is slower to start
            return self._not_found()
        return 0

    def run(self, environ: dict[str, str]) -> int:
        """Start the command, wait for it, and return its exit code: 128 and the signal when a signal ended it."""
        if self._asked_to_end:
            self.exit_code = self.not_started()
        else:
            with Witness() as self._witness:
                self.exit_code = self._run(environ)
        self._asked_to_end.clear()
        return self.exit_code

    def _run(self, environ: dict[str, str]) -> int:
        try:
            # What was open for the command, as a shell's <(...), stays open; all that is opened here closes by itself.
            process = _as_shells_do(
                lambda program, command: subprocess.Popen(command, executable=program, env=environ, close_fds=False),
                self._command,
            )
        except FileNotFoundError:
            return self._not_found()
        except OSError as error:
            return self._not_executable(error)
        self._process = process
        if self._kept and self._witness:
            self._pass_on_kept(process, self._witness)
        with suppress(RuntimeError, OSError):  # no more threads or files: the end is told a little later
            self._wait_for_end(process.pid)
        exit_code = process.wait()
        return exit_code if exit_code >= 0 else 128 - exit_code

    def _wait_for_end(self, pid: int) -> None:
        """Wait for the end of a process, which another thread sees: a signal's handler may be at work here then.

        Who waits for a process is not woken by a signal that came just before, or to another thread; a pipe is.
        """
        import select

        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        end = threading.Thread(target=self._note_end, args=(pid, wake), name="jpwr-end", daemon=True)
        try:
            start(end)
            signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
            poll = select.poll()
            poll.register(woken, select.POLLIN)
            while self.ended_s is None:
                poll.poll()
                os.read(woken, 4096)
            end.join()
        finally:
            signal.set_wakeup_fd(-1)
            os.close(woken)
            os.close(wake)

    def _note_end(self, pid: int, wake: int) -> None:
        with suppress(ChildProcessError):  # who passed a signal on has found it ended
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self.ended_s = time.monotonic()
        with suppress(BlockingIOError):  # there is enough in it to wake
            os.write(wake, b".")

    def not_started(self) -> int:
        """The exit code, with a word, where a signal has asked to end before the command was started."""
        number = self._asked_to_end[0]
        self._asked_to_end.clear()
        self._say(f"{signal.Signals(number).name} came before the command was started: it is not started")
        return 128 + number

    def become(self) -> int:
        """Be the command, in place of this process; returns only when that fails."""
        try:
            settle_streams()
            for number in IGNORED_BY_PYTHON:
                signal.signal(number, signal.SIG_DFL)
            try:
                environ = given_environ()
                _as_shells_do(lambda program, command: os.execvpe(program, command, environ), self._command)
            finally:  # it failed, and a stderr that nobody reads changes no exit code
                for number in IGNORED_BY_PYTHON:
                    signal.signal(number, signal.SIG_IGN)
        except FileNotFoundError:
            return self._not_found()
        except OSError as error:
            return self._not_executable(error)

    def _not_found(self) -> int:
        if _program(self._command[0]):
            self._say(f"command '{self._command[0]}' cannot be executed: the interpreter that it asks for is not there")
        else:
            self._say(f"command '{self._command[0]}' was not found: check its spelling and PATH")
        return EXIT_NOT_FOUND

    def _not_executable(self, error: OSError) -> int:
        if not self._command[0]:
            return self._not_found()
        hint = ": is it a program, with its x bit set?" if error.errno in (errno.EACCES, errno.ENOEXEC) else ""
        self._say(f"command '{self._command[0]}' cannot be executed ({error.strerror}){hint}")
        return EXIT_NOT_EXECUTABLE


def _program(name: str, mode: int = os.F_OK | os.X_OK) -> str | None:
    """The file that a command's name stands for, or None."""
    import shutil

    found = shutil.which(name, mode)
    # From an empty entry of PATH it comes without a folder, and would be looked for again.
    return found if found is None or "/" in found else f"./{found}"


def _as_shells_do(start: Callable[[str, list[str]], _Started], command: list[str]) -> _Started:
    """Start a command, a script that does not say by what it is run as execvp(3), env and shells run it."""
    program = _program(command[0]) or command[0]
    try:
        return start(program, command)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    return start("/bin/sh", ["/bin/sh", program, *command[1:]])


def given_environ() -> dict[str, str]:
    """The environment that this process was given, and what was put into it since: not the LC_CTYPE that Python sets
    where there is no locale.
    """
    environ = dict(os.environ)
    with suppress(OSError), open("/proc/self/environ", "rb") as file:
        if environ.get("LC_CTYPE") in COERCED and b"\0LC_CTYPE=" not in b"\0" + file.read():
            del environ["LC_CTYPE"]
    return environ


def _is_in_our_group(process: subprocess.Popen[bytes]) -> bool:
    """Not under `setsid` or `timeout`, which what is sent to our group does not reach."""
    try:
        return os.getpgid(process.pid) == os.getpgrp()
    except ProcessLookupError:
        return True


class Witness:
    """A process beside the child, in its process group, that does nothing: what it got, the child got too.

    The sender of a signal cannot be asked whether it was for one process or for the group. All signals that are
    passed on are blocked there, so that the kernel tells in /proc which ones came. It ends when jpwr does, in whatever
    way, as its stdin does then.
    """

    def __init__(self) -> None:
        self._got: set[int] = set()
        self._start()

    def _start(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with blocked_signals(), suppress(OSError):  # no such program, or no more processes
            self._process = subprocess.Popen(
                ["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
            )

    def has_got(self, number: int) -> bool:
        """Whether that signal has come here, or comes within SETTLE_S, since the last time that it had."""
        self._look()
        if number not in self._got:
            time.sleep(SETTLE_S)
            self._look()
        got = number in self._got
        self._got.discard(number)
        return got

    def forget(self) -> None:
        """As if none had come."""
        self._look()
        self._got.clear()

    def _look(self) -> None:
        """Note what has come; a signal that is blocked stays, so that a new process then takes the place."""
        with blocked_signals():  # the handler of another looks here too, and must not in the midst of this
            found = _pending(self._process)
            while found or self._process is None or self._process.poll() is not None:
                # The old one goes when the new one is there, so that none comes unseen; what both have got came once.
                old = self._process
                self._start()
                self._got |= found | _pending(old)
                _end(old)
                found = _pending(self._process)
                if self._process is None:
                    return

    def __enter__(self) -> Witness:
        return self

    def __exit__(self, *error: object) -> None:
        process, self._process = self._process, None
        _end(process)


def _pending(process: subprocess.Popen[bytes] | None) -> set[int]:
    """The signals that wait at a process in which they are blocked."""
    mask = 0
    if process is not None:
        with suppress(OSError), open(f"/proc/{process.pid}/status") as status:
            mask = next((int(line.split()[1], 16) for line in status if line.startswith("ShdPnd:")), 0)
    return {int(number) for number in FORWARDED_SIGNALS if mask & 1 << (number - 1)}


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.communicate()
