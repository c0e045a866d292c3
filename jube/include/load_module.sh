#!/usr/bin/env bash
# Load a module, or fail: Environment Modules 3.2 answer 0 for a module that does not exist.
# Usage: . load_module.sh NAME
loaded_before=${LOADEDMODULES-}
module load "$1" || return
[[ ${LOADEDMODULES-} != "$loaded_before" || :$loaded_before: == *":$1"[:/]* ]] && return
echo "the module '$1' was asked for, but 'module load' loads nothing: choose one of 'module list' or 'module avail' in site.yaml" >&2
return 1
