#!/usr/bin/env bash
# Serve a model on all nodes of a job of Slurm, and measure it from the first one. Written from the documentation of vLLM
# and SGLang: it has never run on a GPU.
# Usage, in the checkout: sbatch --nodes=2 --gres=gpu:8 scripts/serve_on_nodes.sh vllm|sglang MODEL VOCABULARY [CONCURRENCY ...]
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --output=serve_on_nodes.out
set -euo pipefail
port=8000 rendezvous=20000

# One node's part of the server.
part() {
    local server=$1 model=$2 first=$3 nodes=$SLURM_JOB_NUM_NODES node=$SLURM_NODEID devices=$SLURM_GPUS_ON_NODE
    local listen=(--served-model-name model --host 0.0.0.0 --port "$port") headless=()
    ((node)) && headless=(--headless)
    if [[ $server == vllm ]]; then # layers split over the nodes, and each over a node's devices
        exec vllm serve "$model" "${listen[@]}" --tensor-parallel-size "$devices" \
            --pipeline-parallel-size "$nodes" --distributed-executor-backend mp --nnodes "$nodes" --node-rank "$node" \
            --master-addr "$first" --no-enable-prefix-caching --enable-prompt-tokens-details "${headless[@]}"
    fi
    exec python3 -m sglang.launch_server --model-path "$model" "${listen[@]}" \
        --tp-size "$((nodes * devices))" --nnodes "$nodes" --node-rank "$node" --dist-init-addr "$first:$rendezvous" \
        --disable-radix-cache --enable-metrics
}

# One node's sampler: on the first node around the client, on the others until the client has ended.
sample() {
    local out=$1 failed=0
    shift
    ((SLURM_NODEID)) && set -- bash -c "until [[ -e $out/ended ]]; do sleep 1; done"
    .venv/bin/python -m jpwr --df-out "$out/power/$SLURMD_NODENAME" -- "$@" || failed=1
    ((SLURM_NODEID)) || touch "$out/ended"
    exit "$failed"
}

[[ $1 == part || $1 == sample ]] && "$@"
server=$1 model=$2 vocabulary=$3 out=serve_on_nodes
shift 3
(($#)) || set -- 1 16 64 256
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${nodes[0]}
mkdir -p "$out"
srun --kill-on-bad-exit=1 scripts/serve_on_nodes.sh part "$server" "$model" "$first" >"$out/server.log" 2>&1 &
parts=$!
trap 'kill "$parts" 2>/dev/null; wait' EXIT
until curl --silent --fail "http://$first:$port/health" >/dev/null; do
    kill -0 "$parts" 2>/dev/null || { tail -n 20 "$out/server.log" >&2; exit 1; }
    sleep 5
done
failed=0
for concurrency in "$@"; do
    mkdir -p "$out/$concurrency"
    rm -f "$out/$concurrency/ended"
    srun --overlap scripts/serve_on_nodes.sh sample "$out/$concurrency" .venv/bin/python -m benchmarks.llm_inference \
        --url "http://$first:$port" --server "$server" --device gpu --vocab-size "$vocabulary" \
        --hosts "${nodes[*]}" --nodes "$SLURM_JOB_NUM_NODES" --devices "$((SLURM_JOB_NUM_NODES * SLURM_GPUS_ON_NODE))" \
        --concurrency "$concurrency" --record "$out/$concurrency/record.json" || failed=1
    .venv/bin/python -m results.collect "$out/$concurrency" || failed=1
done
exit "$failed"
