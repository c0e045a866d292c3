#!/usr/bin/env bash
# Make .venv with the packages of the given parts, and with those that read the power of this machine's accelerators, and
# install JUBE if it is missing. Does nothing if all is in place.
# Usage: setup.sh [PART ...]        (PART is an extra of pyproject.toml; default: llm fno resnet inference report)
set -euo pipefail
unset PYTHONPATH PYTHONHOME # pip would count a module's packages as those of .venv
cd -- "$(dirname -- "$0")/.."
(($#)) || set -- llm fno resnet inference report
venv=.venv
stamp=$venv/installed
log=$venv/pip.log # of all calls; only it has pip's warnings
jube_version=2.7.1
progress_s=10 # between two lines of progress

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

make_venv() {
    [[ -x $venv/bin/pip ]] && return
    local python=${PYTHON:-python3}
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
        fail "$python is missing or older than Python 3.10: install a newer one, or give its path by PYTHON=..."
    say "making $venv"
    "$python" -m venv "$venv" >/dev/null || {
        rm -rf "$venv"
        fail "$python cannot make a virtual environment: on Debian and Ubuntu, 'apt-get install python3-venv'"
    }
}

megabytes() { du -sm "$venv" | cut -f 1; }
# Report time and size at intervals, as long as this script runs. `sleep` must not hold the script's output open.
show_progress() {
    while sleep "$progress_s" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        say "  $SECONDS s, $(megabytes) MB in $venv"
    done
}
pip_install() {
    local ended=0 progress
    show_progress &
    progress=$!
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" >"$log.last" 2>&1 || ended=$?
    kill "$progress" 2>/dev/null || true
    wait "$progress" 2>/dev/null || true
    { echo "pip install $*"; cat "$log.last"; } >>"$log"
    return "$ended"
}
pip_failed() {
    cat "$log" >&2
    grep -q 'No space left on device' "$log" && fail "the disk is full: .venv needs 4 GB, 7 GB with CUDA; $(df -h --output=avail,target "$venv" | tail -n 1) are free"
    fail "$1"
}

refuse_unknown_parts() {
    local part known
    known=$(sed -n '/^\[project.optional-dependencies\]/,/^\[tool/s/^\([a-z-]*\) = .*/\1/p' pyproject.toml)
    for part in "$@"; do
        grep -qxF -- "$part" <<<"$known" || fail "there is no part '$part': choose from $(xargs <<<"$known")"
    done
}

has_nvidia_gpu() { command -v nvidia-smi >/dev/null && [[ $(timeout 60 nvidia-smi -L 2>/dev/null) == *GPU\ [0-9]* ]]; }

# Print the folder of a ROCm that includes AMD SMI; empty without one.
find_rocm() {
    local folder tool folders=("${ROCM_PATH:-/opt/rocm}")
    for tool in amd-smi rocm-smi; do
        tool=$(command -v "$tool") && folders+=("${tool%/bin/*}")
    done
    for folder in "${folders[@]}"; do
        [[ -d $folder/share/amd_smi || -e $folder/lib/libamd_smi.so ]] && echo "$folder" && break
    done
    return 0
}

rocm_version() { sed -n '1s/^\([0-9]*\.[0-9]*\.[0-9]*\).*/\1/p' "$1/.info/version" 2>/dev/null || true; }

version_of() {
    "$venv/bin/python" -c 'import sys; from importlib.metadata import version; print(version(sys.argv[1]))' "$1" 2>/dev/null ||
        true
}

install_plain_torch() { pip_install "torch==$1" || pip_failed "PyTorch could not be installed: see the message of pip above"; }

# On Linux, the plain torch includes gigabytes of CUDA; the CPU build has the version X+cpu, mostly on PyTorch's own index.
install_torch() {
    local version present gpu=$1
    version=$(sed -n 's/^llm = .*"torch==\([^"]*\)".*/\1/p' pyproject.toml)
    present=$(version_of torch)
    if [[ $(uname -s) != Linux || -n $gpu ]]; then
        [[ $present == "$version" || ($present == "$version"+* && $present != *+cpu) ]] && return
        say "installing PyTorch $version${gpu:+ with CUDA (about 2.7 GB)}"
        [[ $present == *+cpu ]] && "$venv/bin/pip" uninstall --quiet --yes torch >>"$log" 2>&1 # else it counts as the same version
        install_plain_torch "$version"
        return
    fi
    [[ $present == "$version" || $present == "$version"+* ]] && return
    if [[ ${CARAML_TORCH:-cpu} == index ]]; then
        say "installing the PyTorch $version of the package index (with CUDA, about 2.7 GB)"
        install_plain_torch "$version"
        return
    fi
    say "installing PyTorch $version for the CPU (about 190 MB)"
    pip_install "torch==$version+cpu" ||
        pip_install "torch==$version+cpu" --extra-index-url https://download.pytorch.org/whl/cpu ||
        pip_failed "the CPU build of torch $version was found neither on the package index nor on download.pytorch.org: \
allow a connection there, or install the package index's build, which includes CUDA (7 GB), by CARAML_TORCH=index make setup"
}

# ROCm's own Python package matches its library, as does the public one of the same release.
install_amdsmi() {
    local rocm=$1 version=$2 copy
    say "installing amdsmi for the ROCm in $rocm"
    if [[ -d $rocm/share/amd_smi ]]; then
        copy=$(mktemp -d)
        cp -r "$rocm/share/amd_smi" "$copy" # pip builds in the folder of the source, which may be read-only
        pip_install --force-reinstall "$copy/amd_smi" && rm -rf "$copy" && return
        rm -rf "$copy"
    fi
    [[ -n $version ]] && { pip_install "amdsmi==$version" || pip_install "amdsmi==${version%.*}.*"; } && return
    cat "$log" >&2
    say "amdsmi for ROCm ${version:-of an unknown release} could not be installed: without it jpwr looks for ROCm SMI in \$ROCM_PATH"
}

install_parts() {
    local part missing="" gpu="" rocm release="" basis of="" present=""
    has_nvidia_gpu && gpu=yes
    [[ -n $gpu && " $* " != *" nvidia "* ]] && set -- "$@" nvidia
    rocm=$(find_rocm)
    [[ -n $rocm ]] && release=$(rocm_version "$rocm")
    # What is installed now: the parts, and everything else that determines the installation. A moved checkout, or one with
    # other requirements or another ROCm, is set up again.
    basis="$PWD $(cat pyproject.toml jpwr/pyproject.toml | cksum)${rocm:+ ROCm $release in $rocm}"
    [[ -f $stamp ]] && { read -r of && read -r present; } <"$stamp" || true
    [[ $of == "$basis" ]] || present=""
    for part in "$@"; do [[ " $present " == *" $part "* ]] || missing+=" $part"; done
    [[ -n $missing ]] || return 0
    rm -f "$stamp"
    if [[ -z $gpu ]] && command -v nvidia-smi >/dev/null; then
        say "nvidia-smi shows no GPU, so that nothing is installed for one: run this again on a machine with a GPU"
    fi
    [[ " $* " == *" llm "* || " $* " == *" fno "* ]] && install_torch "$gpu"
    say "installing the packages of $(IFS=,; echo "$*") ($venv then has 3 to 4 GB)"
    pip_install --editable ./jpwr --editable ".[$(IFS=,; echo "$*")]" || pip_failed "the packages could not be installed: see the message of pip above"
    sed -n '/^ERROR/,$p' "$log.last" >&2 # pip does not fail on conflicting packages
    [[ -n $rocm ]] && install_amdsmi "$rocm" "$release"
    printf '%s\n' "$basis" "$(tr ' ' '\n' <<<"$present $*" | sort -u | xargs)" >"$stamp"
    say "$venv is complete after $SECONDS s, with $(megabytes) MB"
}

# Packages for this checkout would replace those of another one without a trace there.
refuse_environment_of_another() {
    [[ -L $venv && -x $venv/bin/pip ]] || return 0
    [[ -f $stamp && $(head -n 1 "$stamp") == "$PWD "* ]] ||
        fail "$venv is a link to $(readlink -f "$venv"), which is not set up for $PWD: remove the link to get an environment of this checkout's own"
}

as_root() {
    if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

jube_starts() { PATH=$PWD/$venv/bin:$PATH jube --version >"$log.last" 2>&1; }

find_jube() {
    jube_starts && return
    say "installing JUBE"
    if command -v apt-get >/dev/null && as_root true 2>/dev/null; then
        # Ubuntu 24.04's JUBE imports distutils from setuptools, and does not depend on it.
        as_root apt-get -qq update && as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y jube python3-setuptools >/dev/null
        jube_starts && return
    fi
    pip_install "https://github.com/FZJ-JSC/JUBE/archive/refs/tags/v$jube_version.tar.gz" && jube_starts && return
    pip_failed "JUBE does not start and could not be installed ('jube --version': $(jube_starts || tail -n 1 "$log.last")): \
on Debian and Ubuntu, 'sudo apt-get install jube python3-setuptools'; elsewhere, install the release $jube_version from its \
authors with pip, or load your site's module"
}

refuse_unknown_parts "$@"
case ${CARAML_TORCH:-cpu} in cpu | index) ;; *) fail "CARAML_TORCH must be cpu or index, got '$CARAML_TORCH'" ;; esac
refuse_environment_of_another
make_venv
: >"$log"
install_parts "$@"
find_jube
