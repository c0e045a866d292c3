"""`python -m benchmarks.llm_inference`."""

import sys

from benchmarks.llm_inference.run import main

if __name__ == "__main__":  # the client's processes import it, too
    sys.exit(main())
