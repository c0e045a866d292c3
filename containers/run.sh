#!/usr/bin/env bash
# Run a command in a container, in which the checkout, the data and the current folder have the same paths as outside.
# Nothing of ours is installed in an image: PYTHONPATH contains the mounted checkout.
# Usage: run.sh apptainer|podman|charliecloud|none IMAGE VENDOR COMMAND ...
# Images are in $CARAML_CONTAINER_FOLDER, as `caraml image` makes them.
set -euo pipefail
runtime=$1 image=$2 vendor=$3
shift 3
fail() {
    echo "containers/run.sh: error: $1" >&2
    exit 1
}

[[ $runtime == none ]] && exec "$@"
repo=$(cd -- "$(dirname -- "$0")/.." && pwd)
folder=${CARAML_CONTAINER_FOLDER:-$repo/containers/images}
case $runtime in
apptainer) file=$folder/$image.sif program=apptainer ;;
podman) file=$folder/$image.tar program=podman ;;
charliecloud) file=$folder/$image.dir program=ch-run ;;
*) fail "there is no container runtime '$runtime': choose apptainer, podman, charliecloud or none" ;;
esac
command -v "$program" >/dev/null || fail "there is no $program on $(hostname): choose another container_runtime in site.yaml"
[[ -e $file ]] || fail "there is no image $file: make it with 'caraml image $image --runtime $runtime'"
export CARAML_IMAGE=$image CARAML_IMAGE_DIGEST
CARAML_IMAGE_DIGEST=$(cat "$folder/$image.$runtime.digest" 2>/dev/null || true)
mounts=("$repo" "$PWD")
# The files by which the next jpwr restores limits: kill -9 of a container's first process ends all processes in it.
limits=${JPWR_LIMITS_DIR:-/var/tmp}
[[ -d $limits ]] && mounts+=("$limits")
for mount in ${CARAML_DATA_FOLDER:-} ${CARAML_CONTAINER_MOUNTS:-}; do
    if [[ -d $mount ]]; then
        mounts+=("$mount")
    elif [[ $mount != "${CARAML_DATA_FOLDER:-}" ]]; then
        echo "containers/run.sh: there is no $mount on $(hostname): it is not in the container" >&2
    fi
done
# The image has its own Python, and must not use the checkout's environment.
system_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

case $runtime in
apptainer)
    flags=()
    for mount in "${mounts[@]}"; do flags+=(--bind "$mount"); done
    case $vendor in nvidia) flags+=(--nv) ;; amd) flags+=(--rocm) ;; esac
    exec env PATH="$system_path" "$(command -v apptainer)" exec "${flags[@]}" --pwd "$PWD" "$file" "$@"
    ;;
podman)
    flags=(--rm --network host --ipc host --ulimit host --workdir "$PWD" --entrypoint "")
    for mount in "${mounts[@]}"; do flags+=(--volume "$mount:$mount"); done
    case $vendor in
    nvidia) flags+=(--device nvidia.com/gpu=all) ;;
    amd) flags+=(--device /dev/kfd --device /dev/dri --group-add keep-groups) ;;
    esac
    # Devices of the network between nodes: without them, NCCL and MPI silently use sockets.
    for device in /dev/infiniband/* /dev/hfi1_* /dev/cxi*; do
        [[ -c $device ]] && flags+=(--device "$device")
    done
    # Pass variables by name, as the whole environment may contain secrets.
    for name in $(compgen -e); do
        case $name in
        PYTHON* | OMP_* | NCCL_* | GLOO_* | UCX_* | FI_* | CUDA_* | ROCR_* | HIP_* | SLURM* | MASTER_* | CARAML_* | IOPROF_* | JPWR_* | TF_* | XLA_* | TORCH_*)
            flags+=(--env "$name")
            ;;
        esac
    done
    loaded=$(podman load --quiet --input "$file") || fail "podman cannot load $file"
    exec podman run "${flags[@]}" "${loaded##*: }" "$@"
    ;;
charliecloud)
    flags=(--cd "$PWD")
    for mount in "${mounts[@]}"; do
        flags+=(--bind "$mount")
        mkdir -p "$file$mount" # ch-run makes no folder for a mount
    done
    export PATH=$system_path
    [[ -e $file/ch/environment ]] && flags+=(--set-env="$file/ch/environment")
    exec "$(command -v ch-run)" "${flags[@]}" "$file" -- "$@"
    ;;
esac
