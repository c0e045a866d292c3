"""The command `caraml`, also as `python -m caraml`, with an exit code for each kind of failure."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    # Names of our packages, such as `results`, are common: a folder on PYTHONPATH, or the current one, may have them,
    # too. JUBE runs this file, as no PYTHONPATH can contain a checkout with a colon in its name.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    try:
        from caraml.installation import missing_package

        try:
            from caraml import cli
            from jpwr.messages import open_standard_streams
        except ImportError as error:
            print(f"caraml: {missing_package(error)}", file=sys.stderr)
            return 2
        open_standard_streams()
        gc.set_threshold(100_000, 50, 100)  # of thousands of records, none is garbage before the end
        return cli.main(argv)
    except KeyboardInterrupt:
        print("caraml: interrupted; submitted jobs continue", file=sys.stderr)
        return 128 + signal.SIGINT
    except Exception:
        # Python's own exit code would be 1, which means that a requirement is not met.
        traceback.print_exc()
        print("caraml: internal error, no result: report the lines above to the developers", file=sys.stderr)
        return os.EX_SOFTWARE


if __name__ == "__main__":
    sys.exit(main())
