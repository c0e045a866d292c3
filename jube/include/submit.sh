#!/usr/bin/env bash
# Run the job script of this folder, or submit it. A job that cannot be started is a failed result.
# Usage: submit.sh bash | submit.sh sbatch
set -uo pipefail
how=${1:?usage: submit.sh bash|sbatch}
here=$(cd -- "$(dirname -- "$0")" && pwd)

fail() {
    "$here/python.sh" -m results.collect . --exit-code "$1" --reason "$2"
    touch error
    exit 1
}

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
    sbatch --parsable job.sh >job.id 2>submit.err || fail $? "sbatch refused the job: $(tail -n 1 submit.err)"
    ;;
*)
    fail 2 "no way to submit is called '$how': the system's block says 'submit: bash' or 'submit: sbatch'"
    ;;
esac
