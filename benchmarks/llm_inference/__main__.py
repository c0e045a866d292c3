"""`python -m benchmarks.llm_inference`."""

import sys

try:
    from benchmarks.llm_inference.run import main
except ModuleNotFoundError as error:
    if error.name != "h11":
        raise
    sys.exit("error: the client needs the package h11, which this Python lacks: python3 -m pip install h11")

if __name__ == "__main__":  # the client's processes import it, too
    sys.exit(main())
