"""A command line's mistakes in one sentence."""

from __future__ import annotations

import argparse
from typing import NoReturn

from jpwr.say import write

EXIT_FAILED = 125  # as for env(1) and timeout(1): below, the code is the command's own


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one sentence, which begins with the program's name."""

    def error(self, message: str) -> NoReturn:
        write(f"{self.prog.split()[0]}: {message}; '{self.prog} --help' lists the options\n")
        self.exit(EXIT_FAILED)
