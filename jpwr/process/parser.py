"""Command-line parser that reports a mistake in one sentence."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn, Sequence

from jpwr.messages import meant, near, write

EXIT_FAILED = 125  # as for env(1) and timeout(1); lower codes are the command's own


class HelpfulParser(argparse.ArgumentParser):
    """Parser that answers an unknown option, command or choice with the closest known one."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse what is known, and report an option that is not."""
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


class Parser(HelpfulParser):
    """Parser whose errors are one sentence, after the program's name."""

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
        write(f"{self.prog.split()[0]}: {message}; '{self.prog} --help' lists the options\n")
        self.exit(EXIT_FAILED)
