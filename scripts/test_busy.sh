#!/usr/bin/env bash
# Run the tests several times in a row, with twice as many busy loops as cores; stop at the first failure.
# Usage: test_busy.sh ROUNDS all|quick [FLAG OF PYTEST ...]        (after `make lint`, which sets up what is missing)
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
rounds=${1:?usage: test_busy.sh ROUNDS all|quick} tier=${2:?usage: test_busy.sh ROUNDS all|quick}
shift 2
case $tier in
all) which="not slow and not arithmetic" ;;
quick) which="not slow and not arithmetic and not long" ;;
*) echo "test_busy: error: there is no tier '$tier': all or quick" >&2; exit 2 ;;
esac

cores=$(getconf _NPROCESSORS_ONLN)
loops=()
trap 'kill "${loops[@]}"' EXIT
for ((i = 0; i < 2 * cores; i++)); do
    while :; do :; done &
    loops+=($!)
done
for ((round = 1; round <= rounds; round++)); do
    start=$SECONDS
    echo "test_busy: round $round of $rounds with ${#loops[@]} busy loops"
    # Three tests per core: each gets about a sixth of a core, and all still finish.
    pytest "$@" --numprocesses $((3 * cores)) -m "$which"
    echo "test_busy: round $round of $rounds passed in $((SECONDS - start)) s"
done
