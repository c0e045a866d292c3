#!/usr/bin/env bash
# Run both workflows on this machine and show what came out. Fails when any point failed.
# Usage: demo.sh [TAG ...]        (default: CPU)
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
(($#)) || set -- CPU

caraml check jube/*.yaml
good=0
runs=()
for name in llm resnet50; do
    jube run "jube/$name.yaml" --tag "$@"
    jube result "jube/${name}_run" --id last
    caraml check "jube/${name}_run" || good=1
    runs+=("jube/${name}_run")
done
caraml published --plot heat-maps --out report/published_heat_maps.png
caraml published --plot bars --out report/published_bars.png
caraml report "${runs[@]}" --out report/report.html
exit "$good"
