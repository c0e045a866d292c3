#!/usr/bin/env bash
# Run what takes too long for each change, as root; every part runs, and the last line names those that failed.
# Usage: nightly.sh [FLAG OF PYTEST ...]        (make test-nightly calls it)
set -uo pipefail
cd -- "$(dirname -- "$0")/.."
flags=("$@") failed=()

run() {
    local start=$SECONDS ended=0
    echo "nightly: $*"
    "$@" || ended=$?
    echo "nightly: $* ended with $ended after $((SECONDS - start)) s"
    ((ended == 0 || ended == 3)) || failed+=("$*") # 3: not run, and has said why
}

export CARAML_REQUIRE_ALL=1
run pytest "${flags[@]}" -m slow
run make test-contract
run make release-check
run make test-arm64
run scripts/try_release.sh trixie # Python 3.13, and the megatron-core for it
run make test-kubernetes
run make coverage
run scripts/test_busy.sh 1 quick "${flags[@]}"
((${#failed[@]})) || { echo "nightly: passed in $SECONDS s"; exit; }
printf 'nightly: failed: %s\n' "${failed[@]}" >&2
exit 1
