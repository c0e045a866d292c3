#!/usr/bin/env bash
# Run a few short points of three workflows on this machine and show the results. Fails if a point fails.
# Usage: demo.sh [TAG ...]        (default: CPU)
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
good=0
quiet_s=60 # a point takes less; a longer silence means that it hangs, or that the machine is busy
end_s=60   # torchrun gives its ranks 30 s to end

say() { printf '\ndemo, %d s: %s\n' "$SECONDS" "$*"; }
newest_run() { find jube -maxdepth 2 -path "jube/$1_run/[0-9]*" | sort | tail -n 1; }

# Print a line for each point that ends, with an estimate of the time left, and one after each quiet_s without output.
follow() {
    local name=$1 jube=$2 before=$3 run total ended reported=0 start=$SECONDS output="" now last_output=$SECONDS
    while kill -0 "$jube" 2>/dev/null; do
        sleep 1
        run=$(newest_run "$name")
        [[ $run == "$before" || ! -e $run/workpackages.xml ]] && start=$SECONDS last_output=$SECONDS && continue
        total=$(grep -c '>benchmark</step>' "$run/workpackages.xml") || continue
        ended=$(find "$run" -maxdepth 2 -path '*_benchmark/*' \( -name done -o -name error \) | wc -l)
        now=$(find "$run" -maxdepth 3 -name 'job.*' -printf '%p %s ')
        [[ $now == "$output" ]] || last_output=$SECONDS output=$now
        if ((SECONDS - last_output >= quiet_s)); then
            echo "  no output for $quiet_s s: see the last lines of $run/*_benchmark/work/job.out and job.err"
            last_output=$SECONDS
        fi
        ((ended > reported)) || continue
        reported=$ended
        echo "  $ended of $total points, about $(((SECONDS - start) * (total - ended) / ended)) s to go"
    done
}

# Run a workflow, and show JUBE's own output only if it fails.
sweep() {
    local name=$1 before jube
    shift
    before=$(newest_run "$name")
    jube run "jube/$name.yaml" --tag "$@" >"$logs/jube" 2>&1 &
    jube=$!
    follow "$name" "$jube" "$before"
    wait "$jube" || { tail -n 20 "$logs/jube" >&2; exit 1; }
    jube result "jube/${name}_run" --id last
    caraml check "jube/${name}_run" || good=1
}

# A point of a server, where the one that needs no download of weights is the system's own and its library loads.
serve() {
    local server why
    server=$(caraml plan "$1" llm_inference --get default_server 2>/dev/null) || true
    if [[ $server != xllamacpp ]]; then
        echo "demo: LLM inference is left out on $1: 'jube run jube/inference.yaml --tag $1' runs it"
    elif ! why=$(python3 -c 'import xllamacpp' 2>&1); then
        echo "demo: LLM inference is left out, because its server does not load (${why##*$'\n'}): it needs libgomp1 and the extra 'inference'"
    else
        say "LLM inference with llama.cpp: two requests in flight"
        served=(jube/inference_run)
        CARAML_DEVICES=1 CARAML_BATCHES=2 sweep inference "$1" once
    fi
}

demo() {
    local benchmark data text how served=()
    if ((!$#)); then
        caraml doctor || true # prints the tag of this machine
        echo "demo: runs on the processor; for an accelerator, run 'jube run jube/llm.yaml --tag TAG'"
        set -- CPU
    fi
    caraml check jube/*.yaml
    # Check before making the data what the workflows check after it.
    for benchmark in llm_training resnet50; do
        how=$(caraml plan "$1" "$benchmark" --tags "${@:2}" --get submit)
    done
    data=$(caraml plan "$1" llm_training --ask-scheduler --get data_folder) || {
        echo "demo: $1 runs by $how, which cannot be used here: 'caraml doctor --system $1' lists what is missing" >&2
        exit 1
    }
    say "text for GPT and pictures for ResNet-50, in parallel (made once)"
    python3 -m benchmarks.llm_training.prepare --out "$data/text-tiny" --size tiny >"$logs/text" 2>&1 &
    text=$!
    python3 -m benchmarks.resnet50.prepare --out "$data/fake-imagenet" >"$logs/pictures" 2>&1 || { cat "$logs/pictures" >&2; exit 1; }
    wait "$text" || { cat "$logs/text" >&2; exit 1; }

    say "GPT with megatron-core: one process and two, two batch sizes"
    sweep llm "$@"
    say "ResNet-50 with TensorFlow, on small pictures: two batch sizes"
    CARAML_DEVICES=${CARAML_DEVICES:-1} sweep resnet50 "$@"
    serve "$1"

    say "the report"
    mkdir -p report
    caraml published --plot heat-maps --out report/published_heat_maps.png >/dev/null &
    caraml published --plot bars --out report/published_bars.png >/dev/null &
    caraml report jube/llm_run jube/resnet50_run "${served[@]}" --out report/report.html >"$logs/report"
    wait
    head -n 1 "$logs/report"
    exit "$good"
}

# The demo is one process group (set -m), so that one signal can end all of it: background processes of bash ignore
# Ctrl-C.
stop() {
    trap '' HUP INT TERM
    echo "demo: interrupted, ending its processes" >&2
    kill -TERM -- "-$group" 2>/dev/null || true
    for ((i = 0; i < 10 * end_s; i++)); do
        kill -0 -- "-$group" 2>/dev/null || exit $((128 + $1))
        sleep 0.1
    done
    echo "demo: some of process group $group has not ended within $end_s s: 'kill -KILL -- -$group' ends it" >&2
    exit $((128 + $1))
}
trap 'stop 1' HUP
trap 'stop 2' INT
trap 'stop 15' TERM
set -m
demo "$@" </dev/null &
group=$!
set +m
wait "$group"
