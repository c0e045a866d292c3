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

# Parts of the demo on the system CPU, in order. A part waits for some seconds, whatever the machine: idle power and the
# measured window. It computes for others: start-up above all. Measured on two cores of an AMD EPYC with AVX-512.
parts=(check data llm llm_point resnet50 resnet50_point inference inference_point conversations conversations_point report)
declare -A number=([check]=1 [data]=1 [llm]=1 [llm_point]=3 [resnet50]=1 [resnet50_point]=1 [inference]=1 [inference_point]=1 [conversations]=1 [conversations_point]=1 [report]=1)
declare -A waits_s=([check]=0 [data]=0 [llm]=0 [llm_point]=9 [resnet50]=0 [resnet50_point]=9 [inference]=0 [inference_point]=14 [conversations]=0 [conversations_point]=14 [report]=0)
declare -A works_s=([check]=4 [data]=13 [llm]=8 [llm_point]=7 [resnet50]=3 [resnet50_point]=15 [inference]=3 [inference_point]=4 [conversations]=3 [conversations_point]=4 [report]=8)
loop_ms=600  # what the loop of measure_pace takes there
trusted_s=10 # of computing, from which the demo's own pace counts more than the loop's
timed="" waited_s=0 worked_s=0 pace_percent=100

# Time a loop on two cores, before there is anything else to judge this machine by.
measure_pace() {
    local begun_us=${EPOCHREALTIME/[.,]/} loops=()
    for _ in 1 2; do
        python3 -c 'sum(i * i for i in range(8_000_000))' &
        loops+=($!)
    done
    wait "${loops[@]}"
    pace_percent=$(((${EPOCHREALTIME/[.,]/} - begun_us) / 10 / loop_ms))
}
ended() {
    ((number[$1] -= 1, waited_s += waits_s[$1], worked_s += works_s[$1])) || true
}
# Print the seconds that remain, at the pace of this machine so far.
seconds_left() {
    local part waits=0 works=0 percent
    for part in "${parts[@]}"; do
        ((waits += number[$part] * waits_s[$part], works += number[$part] * works_s[$part])) || true
    done
    percent=$(((trusted_s * pace_percent + 100 * (SECONDS > waited_s ? SECONDS - waited_s : 0)) / (trusted_s + worked_s)))
    echo $((waits + works * percent / 100))
}
to_go() { [[ -z $timed ]] || printf ', about %d s to go' "$(seconds_left)"; }

say() { printf '\ndemo, %d s%s: %s\n' "$SECONDS" "$(to_go)" "$*"; }
newest_run() { find jube -maxdepth 2 -path "jube/$1_run/[0-9]*" | sort | tail -n 1; }

# Print a line for each point that ends, with the time left, and one after each quiet_s without output.
follow() {
    local name=$1 part=${part:-$1} jube=$2 before=$3 run total="" found finished reported=0 output="" now last_output=$SECONDS
    while kill -0 "$jube" 2>/dev/null; do
        sleep 1
        run=$(newest_run "$name")
        [[ $run == "$before" || ! -e $run/workpackages.xml ]] && last_output=$SECONDS && continue
        found=$(grep -c '>benchmark</step>' "$run/workpackages.xml") || continue
        [[ -n $total ]] || ended "$part" # JUBE's start, and the check of the data
        total=$found
        number[${part}_point]=$((total - reported))
        finished=$(find "$run" -maxdepth 2 -path '*_benchmark/*' \( -name done -o -name error \) | wc -l)
        now=$(find "$run" -maxdepth 3 -name 'job.*' -printf '%p %s ')
        [[ $now == "$output" ]] || last_output=$SECONDS output=$now
        if ((SECONDS - last_output >= quiet_s)); then
            echo "  no output for $quiet_s s: see the last lines of $run/*_benchmark/work/job.out and job.err"
            last_output=$SECONDS
        fi
        ((finished > reported)) || continue
        for ((; reported < finished; reported++)); do ended "${part}_point"; done
        echo "  $reported of $total points$(to_go)"
    done
    number[$part]=0 number[${part}_point]=0
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
        say "conversations of many turns with llama.cpp's prefix cache: two at once"
        part=conversations CARAML_DEVICES=1 CARAML_BATCHES=2 sweep inference "$1" once agentic
    fi
}

demo() {
    local benchmark data text how served=()
    if ((!$#)); then
        caraml doctor || true # prints the tag of this machine
        echo "demo: runs on the processor; for an accelerator, run 'jube run jube/llm.yaml --tag TAG'"
        set -- CPU
    fi
    if [[ $1 == CPU ]]; then
        timed=yes
        measure_pace
        echo "demo: makes text and pictures, trains a GPT and ResNet-50, loads a server of a language model, and writes a report: \
about $((SECONDS + $(seconds_left))) s in total"
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
    ended check
    say "text for GPT and pictures for ResNet-50, in parallel (made once)"
    python3 -m benchmarks.llm_training.prepare --out "$data/text-tiny" --size tiny >"$logs/text" 2>&1 &
    text=$!
    python3 -m benchmarks.resnet50.prepare --out "$data/fake-imagenet" >"$logs/pictures" 2>&1 || { cat "$logs/pictures" >&2; exit 1; }
    wait "$text" || { cat "$logs/text" >&2; exit 1; }
    ended data

    say "GPT with megatron-core: one process and two"
    sweep llm "$@"
    say "ResNet-50 with TensorFlow, on small pictures"
    CARAML_DEVICES=${CARAML_DEVICES:-1} sweep resnet50 "$@"
    serve "$1"
    number[inference]=0 number[inference_point]=0 number[conversations]=0 number[conversations_point]=0 # also where it is left out

    say "the report"
    mkdir -p report
    caraml report jube/llm_run jube/resnet50_run "${served[@]}" --out report/report.html >"$logs/report"
    head -n 1 "$logs/report"
    echo "demo: complete after $SECONDS s"
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
