#!/usr/bin/env bash
# Make .venv with what the named parts need, and see that JUBE is there. Does nothing when all is in place.
# Usage: setup.sh [PART ...]        (PART is an extra of pyproject.toml; default: llm resnet report)
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
(($#)) || set -- llm resnet report
venv=.venv
jube_version=2.7.1

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

make_venv() {
    [[ -x $venv/bin/pip ]] && return
    local python=${PYTHON:-python3}
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
        fail "$python is missing or older than Python 3.10: install a newer one, or name it with PYTHON=..."
    say "making $venv"
    "$python" -m venv "$venv" >/dev/null || {
        rm -rf "$venv"
        fail "$python cannot make a virtual environment: on Debian and Ubuntu, 'apt-get install python3-venv'"
    }
}

has_nvidia_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; }

# The plain torch of Linux brings gigabytes of CUDA; the CPU build is elsewhere called X+cpu, and mostly on PyTorch's own index.
install_torch() {
    local version
    version=$(sed -n 's/^llm = .*"torch==\([^"]*\)".*/\1/p' pyproject.toml)
    if [[ $(uname -s) != Linux ]] || has_nvidia_gpu; then
        pip_install "torch==$version"
    elif ! pip_install "torch==$version+cpu" 2>/dev/null; then
        pip_install "torch==$version+cpu" --extra-index-url https://download.pytorch.org/whl/cpu ||
            fail "the CPU build of torch $version cannot be installed: is there a connection to download.pytorch.org?"
    fi
}

pip_install() { "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }

install_parts() {
    local parts stamp
    parts=$(IFS=,; echo "$*")
    # Stamped with all that decides what is installed, and where: a moved checkout is set up again.
    stamp="$PWD $parts $(cksum <pyproject.toml)"
    [[ -f $venv/installed ]] && grep -qxF "$stamp" "$venv/installed" && return
    if [[ " $* " == *" llm "* ]] && ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
        say "installing PyTorch"
        install_torch
    fi
    say "installing what $parts need"
    pip_install --editable ".[$parts]" || fail "the packages could not be installed: see the message of pip above"
    echo "$stamp" >>"$venv/installed"
}

as_root() {
    if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

find_jube() {
    command -v jube >/dev/null || [[ -x $venv/bin/jube ]] && return
    say "installing JUBE"
    if command -v apt-get >/dev/null && as_root true 2>/dev/null; then
        as_root apt-get -qq update && as_root apt-get -qq install -y jube >/dev/null && return
    fi
    pip_install "https://github.com/FZJ-JSC/JUBE/archive/refs/tags/v$jube_version.tar.gz" && return
    fail "JUBE is not there and could not be installed: on Debian and Ubuntu, 'sudo apt-get install jube'; elsewhere, \
install the release $jube_version from its authors with pip, or load your site's module"
}

make_venv
install_parts "$@"
find_jube
