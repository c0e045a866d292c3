#!/usr/bin/env bash
# Run or submit the job script of this folder, once: 'jube continue' runs this again for points that look open to JUBE.
# If the job cannot be started, write a failed result.
# Usage: submit.sh bash|sbatch|kubernetes SYSTEM [RUNS]        (RUNS: number of runs of the job; default: 1)
set -uo pipefail
how=${1:?usage: submit.sh bash|sbatch|kubernetes SYSTEM [RUNS]}
system=${2:?usage: submit.sh bash|sbatch|kubernetes SYSTEM [RUNS]}
runs=(.)
for ((i = 2; i <= ${3:-1}; i++)); do runs+=("run_$i"); done
here=$(cd -- "$(dirname -- "$0")" && pwd)

fail() {
    for run in "${runs[@]}"; do
        "$here/python.sh" -m results.collect "$run" --exit-code "$1" --reason "$2"
    done
    touch error
    exit 1
}
# Show the job's last progress line on the terminal, if there is one: JUBE shows no output before the job's end.
show_progress() {
    tail -qn 0 -F --pid $$ "${runs[@]/%//job.out}" 2>/dev/null | grep --line-buffered -E '(step|round|measured) [0-9]+ of [0-9]+' |
        while read -r line; do printf '\r\033[K%s: %s' "$(basename "${PWD%/work}")" "$line"; done
    printf '\r\033[K'
}
exit_if_ended() {
    [[ -e ready ]] && exit 0
    [[ -e error ]] && exit 1
}

exit_if_ended
[[ -e job.id ]] && exit 0
exec 9>>submitted # locked by a job of this machine until it ends
[[ $how != bash ]] || flock 9 || exit
exit_if_ended
echo "$how $system ${#runs[@]}" >submitted
for run in "${runs[@]:1}"; do
    mkdir -p "$run"
    cp result.json "$run"
done
"$here/python.sh" -m caraml.schedulers.submit "$how" "$system" 2>submit.err || fail $? "$(tail -n 1 submit.err)"
[[ $how == bash ]] || exit 0
{ : >/dev/tty; } 2>/dev/null && show_progress >/dev/tty &
# This machine is not reserved. With one other busy process, a PyTorch step takes up to 20 times as long, because libgomp's
# threads spin while they wait for the one without a core. Spinning for a shorter time costs 5 to 10 % on idle cores
# (measured on two cores, PyTorch 2.13).
CARAML_RESERVED= GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000} bash job.sh >job.out 2>job.err
code=$?
[[ -e ready ]] && exit 0
[[ -e error ]] || fail "$code" ""
tail -qn 1 job.err run_*/job.err 2>/dev/null >&2
exit 1
