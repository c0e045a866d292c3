"""Command-line parser that reports a mistake in one sentence."""

from __future__ import annotations

import argparse
from typing import Any, ClassVar, Mapping, NoReturn, Sequence

from jpwr.messages import meant, near, write

EXIT_FAILED = 125  # as for env(1) and timeout(1); lower codes are the command's own


class HelpfulParser(argparse.ArgumentParser):
    """Parser that answers an unknown option, command or choice with the closest known one.

    `removed` has what to use instead of each removed command or option, named with its program.
    """

    removed: ClassVar[Mapping[str, str]] = {}
    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse what is known, and report an option that is not."""
        self._words = args or ()
        options, others = super().parse_known_args(args, namespace)
        for one in others:
            if one.startswith("--"):
                known = (flag for action in self._actions for flag in action.option_strings)
                hint = meant(one.partition("=")[0], known)
                self.error(f"there is no option {one}" + (f": {hint}" if hint else ""))
        return options, others

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            words = f"there is no '{value}': {near(str(value), map(str, action.choices))}"
            raise argparse.ArgumentError(action, words)

    def _explained(self, message: str) -> str:
        """Return what to use instead of a removed command or option that was given; the message without one."""
        names = (f"{self.prog} {word.partition('=')[0]}" for word in self._words)
        return next((removed_words(name, self.removed) for name in names if name in self.removed), message)


def removed_words(name: str, removed: Mapping[str, str]) -> str:
    """Return the sentence on a removed command or option."""
    return f"'{name}' was removed: {removed[name]}"


class Parser(HelpfulParser):
    """Parser whose errors are one sentence, after the program's name."""

    removed: ClassVar[Mapping[str, str]] = {  # for one release
        "jpwr check": "'jpwr read TRACE' prints the summary of a trace",
        "jpwr read --plot": "draw the columns of the trace, a CSV",
        "jpwr --prometheus": "use '--live', or read the trace, a CSV, while it is written",
    }

    def parse_with_command(self, arguments: Sequence[str], example: str) -> argparse.Namespace:
        """Parse options and, as `command`, everything after the first "--" or from the first word that is no option."""
        self.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        own = list(arguments)
        at = own.index("--") if "--" in own else len(own)
        options = self.parse_args(own[:at])
        # Without "--" before the command, the command's own arguments may contain one.
        options.command += own[at:] if options.command else own[at + 1 :]
        if not any(options.command[:1]):
            self.error(f"no command was given: put it after '--', as in '{example}'")
        return options

    def error(self, message: str) -> NoReturn:
        """Print a message and exit with EXIT_FAILED."""
        write(f"{self.prog.split()[0]}: {self._explained(message)}; '{self.prog} --help' lists the options\n")
        self.exit(EXIT_FAILED)
