#!/usr/bin/env bash
# Run the main job on this machine and show what came out. Fails when any point failed.
# Usage: demo.sh [TAG ...]        (default: CPU)
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
(($#)) || set -- CPU

jube run jube/llm.yaml --tag "$@"
jube result jube/llm_run --id last
good=0
caraml check jube/llm_run || good=1
run=$(find jube/llm_run -mindepth 1 -maxdepth 1 -name '[0-9]*' | sort | tail -n 1)
caraml report "$run" --out "$run/report.html"
exit "$good"
