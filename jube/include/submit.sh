#!/usr/bin/env bash
# Run the job script of this folder, or submit it. A job that cannot be started is a failed result.
# Usage: submit.sh bash|sbatch SYSTEM
set -uo pipefail
how=${1:?usage: submit.sh bash|sbatch SYSTEM}
system=${2:?usage: submit.sh bash|sbatch SYSTEM}
here=$(cd -- "$(dirname -- "$0")" && pwd)

fail() {
    "$here/python.sh" -m results.collect . --exit-code "$1" --reason "$2"
    touch error
    exit 1
}
site() {
    "$here/python.sh" -m caraml.site "$system" "$1" 2>submit.err || fail $? "$(tail -n 1 submit.err)"
}

echo "$how $system" >submitted
site --job >site.sh
case $how in
bash)
    bash job.sh >job.out 2>job.err
    code=$?
    [[ -e ready ]] && exit 0
    [[ -e error ]] || fail "$code" ""
    tail -n 1 job.err >&2
    exit 1
    ;;
sbatch)
    site --sbatch >sbatch.flags
    mapfile -t flags <sbatch.flags
    command -v sbatch >/dev/null || fail 127 "there is no sbatch on this machine: run the workflow on a login node of $system"
    sbatch --parsable "${flags[@]}" job.sh >submit.out 2>submit.err || fail $? "sbatch refused the job: $(tail -n 1 submit.err)"
    mv submit.out job.id
    ;;
*)
    fail 2 "no way to submit is called '$how': the system's block says 'submit: bash' or 'submit: sbatch'"
    ;;
esac
