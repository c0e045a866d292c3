#!/usr/bin/env bash
# Run the tests several times in a row beside twice as many busy loops as there are cores; stop at the first failure.
# Usage: test_busy.sh ROUNDS all|quick [FLAG OF PYTEST ...]        (after `make lint`, which sets up what is missing)
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
rounds=${1:?usage: test_busy.sh ROUNDS all|quick} tier=${2:?usage: test_busy.sh ROUNDS all|quick}
shift 2
case $tier in
all) which="not slow" ;;
quick) which="not slow and not long" ;;
*) echo "test_busy: error: there is no tier '$tier': all or quick" >&2; exit 2 ;;
esac

loops=()
trap 'kill "${loops[@]}"' EXIT
for ((i = 0; i < 2 * $(getconf _NPROCESSORS_ONLN); i++)); do
    while :; do :; done &
    loops+=($!)
done
for ((round = 1; round <= rounds; round++)); do
    start=$SECONDS
    echo "test_busy: round $round of $rounds beside ${#loops[@]} busy loops"
    pytest "$@" -m "$which"
    echo "test_busy: round $round of $rounds passed in $((SECONDS - start)) s"
done
