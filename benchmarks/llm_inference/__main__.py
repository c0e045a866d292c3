"""`python -m benchmarks.llm_inference`."""

import sys

try:
    from benchmarks.llm_inference.run import main
except ModuleNotFoundError as error:
    if error.name != "httptools":
        raise
    sys.exit("error: the client needs the package httptools, which this Python lacks: python3 -m pip install httptools")

if __name__ == "__main__":  # the client's processes import it, too
    sys.exit(main())
