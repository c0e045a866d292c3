"""A command line's mistakes in one sentence."""

from __future__ import annotations

import argparse
from typing import NoReturn, Sequence

from jpwr.say import write

EXIT_FAILED = 125  # as for env(1) and timeout(1): below, the code is the command's own


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one sentence, which begins with the program's name."""

    def parse_with_command(self, arguments: Sequence[str], example: str) -> argparse.Namespace:
        """Parse options and, as `command`, what comes after the first "--" or is no option."""
        self.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        own = list(arguments)
        at = own.index("--") if "--" in own else len(own)
        options = self.parse_args(own[:at])
        # A command without a "--" of ours before it may have one of its own.
        options.command += own[at:] if options.command else own[at + 1 :]
        if not options.command:
            self.error(f"no command was given: put it after '--', as in '{example}'")
        return options

    def error(self, message: str) -> NoReturn:
        write(f"{self.prog.split()[0]}: {message}; '{self.prog} --help' lists the options\n")
        self.exit(EXIT_FAILED)
