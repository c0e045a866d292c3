#!/usr/bin/env bash
# Train the 117M and the 800M GPT on one NVIDIA GPU under the power sampler, over micro and global batch sizes, and show
# the records with the published figures. Records and traces are kept in jube/gpu_check_run/SYSTEM; the last lines say how
# to hand them in.
# Usage: gpu_check.sh SYSTEM        (the GPU's tag in `caraml systems`)
# Needs PyTorch for the GPU and what `make setup` installs.
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
fail() { echo "gpu_check: error: $1" >&2; exit 1; }

system=${1:-}
[[ -n $system ]] || fail "state the system of the GPU, such as 'make gpu-check SYSTEM=NAME': 'caraml systems' lists the names"
peak=$(python3 -m caraml systems --system "$system" --get peak_tflops_bf16)
[[ $(nvidia-smi -L 2>/dev/null) == *GPU\ [0-9]* ]] || fail "nvidia-smi shows no GPU: run this on a machine with one"
out=jube/gpu_check_run/$system
most_s=${GPU_CHECK_S:-480} # time limit of all points together; later ones are skipped with a message
good=0

# size, micro batch, global batch, measured steps, further flags; the headline first
points=(
    "800M 4 16 30" "800M 8 64 12" "800M 8 64 12 --compile layers"
    "117M 16 64 50" "117M 16 64 50 --cuda-graph on"
    "800M 8 64 12 --compile layers --cuda-graph on" "800M 16 64 12 --compile layers"
    "117M 32 256 30 --compile layers --cuda-graph on" "800M 16 512 4"
)
for point in "${points[@]}"; do
    read -r size micro global steps flags <<<"$point"
    if ((SECONDS > most_s - 60)); then
        echo "gpu_check: skipped after $SECONDS s of $most_s s: $point"
        continue
    fi
    folder=$out/llm_${size}_micro${micro}_batch${global}${flags// /_}_$(date +%Y%m%dT%H%M%S)
    mkdir -p "$folder"
    echo "gpu_check: $size, micro batch $micro, global batch $global ${flags:+($flags)}"
    (
        cd "$folder"
        repo=$OLDPWD
        export PYTHONPATH=$repo${PYTHONPATH:+:$PYTHONPATH}
        # The result of a run that ends without one.
        cat >result.json <<END
{"schema_version": 4, "benchmark": "llm_training", "system": "$system", "model": "$size", "work_unit": "tokens",
 "status": "unfinished", "error": "the run ended without a result",
 "layout": {"num_devices": 1, "num_nodes": 1, "global_batch_size": $global}}
END
        code=0
        python3 -m jpwr --methods pynvml --idle 4 --df-out "power/$(hostname)" -- \
            python3 -m benchmarks.llm_training --device gpu --size "$size" --micro-batch-size "$micro" \
            --global-batch-size "$global" --warmup-steps 5 --measured-steps "$steps" --min-measured-s 20 $flags \
            --system "$system" --peak-tflops-per-device "$peak" --record record.json >job.out 2>job.err || code=$?
        if ((code)); then python3 -m results.collect . --exit-code "$code"; else python3 -m results.collect .; fi
    ) || { good=1; tail -3 "$folder/job.err" >&2; }
done
python3 -m caraml table "$out" --repeats
echo
echo "Published:"
python3 -m caraml published GPT-800M tokens/s/GPU
name=${system//[^A-Za-z0-9]/_}_$(date +%Y-%m)
cat <<END

To add these runs to results/records, with your key in results/records/signers (docs/howto/check_an_archive.md):
  caraml archive "$out" -o $name.zip --licence CC-BY-4.0 --sign ~/.ssh/id_ed25519
  caraml submit $name.zip
END
exit "$good"
