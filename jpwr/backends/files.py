"""Numbers in files whose content the kernel generates at each read."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Callable, Mapping, TextIO

from jpwr.backends.parts import Part, attempt
from jpwr.errors import BackendUnavailable, ReadError
from jpwr.process.host import text_of as text_of


def open_reading(
    stack: ExitStack, path: Path, scale: float, units: Mapping[str, float] | None = None
) -> Callable[[], float]:
    """Return a function that reads a file whose first word is a number; `scale` turns it into watts or joules.

    With `units`, the second word is a unit with a further scale. Raises BackendUnavailable if it cannot be opened.
    """
    try:
        file: TextIO = stack.enter_context(open(path))
    except PermissionError as error:
        raise BackendUnavailable(
            f"{path} is readable by root only: have your administrator run 'chmod a+r' on it"
        ) from error
    except OSError as error:
        raise BackendUnavailable(f"{path} cannot be opened ({error.strerror})") from error

    def read() -> float:
        try:
            file.seek(0)  # sysfs makes a new value at each read from the start
            words = file.read().split(None, 2)
            return int(words[0]) * scale if units is None else float(words[0]) * units[words[1]] * scale
        except KeyError as error:
            known = ", ".join(units or ())
            raise ReadError(f"{file.name}: the unit '{error.args[0]:.20}' is none of {known}") from error
        except (OSError, ValueError, IndexError) as error:
            raise ReadError(f"{file.name}: {error}") from error

    return read


def reading_of(stack: ExitStack, path: Path, scale: float, units: Mapping[str, float] | None = None) -> Part:
    """Return the reading of a sensor's optional file; None if the file does not exist."""
    return attempt(partial(open_reading, stack, path, scale, units)) if path.exists() else None


def seconds_of_file(path: Path) -> float:
    """Return the time in seconds that a file states in milliseconds; 0 if it states none."""
    text = text_of(path)
    return int(text) / 1000 if text.isdigit() else 0.0


def pci_id_of(device: Path) -> int:
    """Return the PCI id of a device of the kernel's tree; 0 if it states none."""
    try:
        return int(text_of(device / "device"), 16)
    except ValueError:
        return 0
