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

# Run a command next to twice as many busy loops as cores: no quick test depends on the speed of the machine.
next_to_busy_loops() {
    local cores loops=() ended=0
    cores=$(getconf _NPROCESSORS_ONLN)
    for ((i = 0; i < 2 * cores; i++)); do
        while :; do :; done &
        loops+=($!)
    done
    "$@" || ended=$?
    kill "${loops[@]}"
    return "$ended"
}

export CARAML_REQUIRE_ALL=1
run pytest "${flags[@]}" -m slow --ignore tests/contracts
run make test-contract
run make test-arm64
run scripts/try_release.sh trixie # Python 3.13, and the megatron-core for it
run make test-kubernetes
run make coverage
run python -m tools.bench.mutants --number 20 --seed "$(date +%j)"
# The same run says which lines of the core the quick tests leave out.
run next_to_busy_loops pytest "${flags[@]}" -m 'not slow and not long' \
    --cov=caraml --cov=jpwr --cov=record --cov=results --cov-report=term-missing:skip-covered
((${#failed[@]})) || { echo "nightly: passed in $SECONDS s"; exit; }
printf 'nightly: failed: %s\n' "${failed[@]}" >&2
exit 1
