#!/usr/bin/env bash
# Run a selection of tests of jpwr, ioprof and a node's facts on aarch64: in a Debian root that is unpacked into build/arm64 and used
# again, with qemu-user where the machine has another processor. Needs root. Exits with 3 if a part is missing.
# Usage: test_arm64.sh [PYTEST_ARGUMENT ...]
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
release=trixie
packages=base-files,bash,coreutils,dash,findutils,gcc,git,grep,libc6-dev,procps,sed,util-linux
packages+=,python3,python3-hypothesis,python3-pytest,python3-pytest-xdist,python3-rich,python3-yaml
without_compiled_parts=(amdsmi pynvml.py) # Python packages that Debian lacks
formats=/proc/sys/fs/binfmt_misc format=caraml-aarch64-$RANDOM
elf='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00' # magic number of a program for aarch64
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
build=$PWD/build/arm64 root=$PWD/build/arm64/root made_of=$PWD/build/arm64/made_of

not_run() { echo "test_arm64: not run, $1" >&2; exit 3; }

# Let the kernel start programs for aarch64 by qemu, also in a chroot (flag F), until this script ends.
register_qemu() {
    [[ $(uname -m) == aarch64 ]] && return
    local qemu
    export CARAML_EMULATED=1
    qemu=$(command -v qemu-aarch64-static) || not_run "there is no qemu-aarch64-static: apt-get install qemu-user-static"
    [[ -e $formats/register ]] || mount -t binfmt_misc binfmt_misc "$formats" 2>/dev/null ||
        not_run "the kernel has no binfmt_misc, or does not let this container use it: run this as root on the machine itself"
    printf '%s' ":$format:M::$elf:$mask:$qemu:F" >"$formats/register"
    trap 'echo -1 >"$formats/$format"' EXIT
}

make_root() {
    [[ -e $made_of && $(<"$made_of") == "$release $packages" ]] && return
    command -v mmdebstrap >/dev/null || not_run "there is no mmdebstrap: apt-get install mmdebstrap"
    rm -rf --one-file-system "$root" "$made_of"
    mkdir -p "$build"
    echo "test_arm64: unpacking Debian $release for arm64"
    mmdebstrap --quiet --skip=check/qemu --architectures=arm64 --variant=extract "--include=$packages" "$release" "$root"
    # What the packages' own scripts would make.
    ln -sf dash "$root/usr/bin/sh"
    ln -sf gcc "$root/usr/bin/cc"
    cp /etc/passwd /etc/group /etc/hosts "$root/etc/"
    mkdir "$root/caraml"
    echo "$release $packages" >"$made_of"
}

test_in_root() {
    local name
    cp -r "${without_compiled_parts[@]/#/$(echo .venv/lib/python3*/site-packages)/}" "$root/usr/lib/python3/dist-packages/"
    mount --bind . "$root/caraml"
    mount -t tmpfs tmpfs "$root/tmp"
    mount -t proc proc "$root/proc"
    for name in sys dev; do mount --rbind "/$name" "$root/$name"; done
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/tmp PYTHONPYCACHEPREFIX=/compiled \
        CARAML_EMULATED="${CARAML_EMULATED:-}" sh -c 'cd /caraml && exec python3 -m pytest "$@"' - "$@"
}

[[ $(id -u) == 0 ]] || not_run "a chroot needs root: run this with sudo"
# In mount and process namespaces of its own, so that mounts and processes end with it.
[[ -n ${CARAML_ARM64:-} ]] || CARAML_ARM64=1 exec unshare --mount --propagation private --pid --fork --kill-child "$0" "$@"
register_qemu
make_root
# Without the tests of methods, commands, signals and limits: they take 5, 5, 6 and more than 10 minutes under qemu-user.
(($#)) || set -- -q -p no:cacheprovider -n auto --maxprocesses 8 --dist loadfile -m 'not slow and not long' \
    jpwr/tests/test_{contract,processor,sampler}.py ioprof/tests/test_counts.py \
    benchmarks/common/tests/test_launch_and_provenance.py
test_in_root "$@"
echo "test_arm64: passed in $SECONDS s, $([[ $(uname -m) == aarch64 ]] || echo "emulated ")on aarch64"
