#!/usr/bin/env bash
# Run Python with the checkout's modules, from the environment of `make setup`, or else python3 from PATH.
# Usage: python.sh ARGUMENTS OF PYTHON
here=$(cd -- "$(dirname -- "$0")" && pwd)
repo=${here%/jube/include}
python=$repo/.venv/bin/python
if [[ -x $python ]]; then
    unset PYTHONPATH PYTHONHOME # a module's packages would go before those of .venv
else
    python=python3
fi
PYTHONPATH="$repo${PYTHONPATH:+:$PYTHONPATH}" exec "$python" "$@"
