#!/usr/bin/env bash
# Print the plan of a run of JUBE, a Python dictionary, as the value of the parameter `plan`.
# If the run is refused, remove its folder, and print an expression that ends JUBE with the reason as the last line: JUBE
# would print the reason of a command that fails inside a message of its own.
# Usage: plan.sh FOLDER ARGUMENTS OF caraml plan        (FOLDER: of the run)
run=${1:?usage: plan.sh FOLDER ARGUMENTS OF caraml plan}
shift
here=$(cd -- "$(dirname -- "$0")" && pwd)
{ reason=$("$here/python.sh" "${here%/jube/include}/caraml/__main__.py" plan --run "$run" "$@" 2>&1 >&3); } 3>&1 && exit
if [[ -e $run/configuration.xml && ! -e $run/workpackages.xml ]]; then # no step has started
    removed=$(dirname -- "$run")/.refused-$(basename -- "$run")
    mv -- "$run" "$removed" && rm -rf -- "$removed" # NFS keeps the log, which JUBE has open: hence another name
fi 2>/dev/null
# JUBE splits at | and replaces $.
python3 -c 'import sys; print("__import__(\"sys\").exit(" + ascii(sys.argv[1]).replace("|", "\\x7c").replace("$", "\\x24") + ")", end="")' "$reason"
