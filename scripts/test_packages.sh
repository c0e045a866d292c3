#!/usr/bin/env bash
# Install the programs that only some tests need, on Debian and Ubuntu, as root or with sudo.
# Usage: test_packages.sh
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
export DEBIAN_FRONTEND=noninteractive
debian_13=build/test-packages # packages that an older release lacks; `make` and the tests use them

as_root() {
    if [[ $(id -u) == 0 ]]; then "$@"; else sudo --preserve-env=DEBIAN_FRONTEND "$@"; fi
}

# Unpack packages of Debian 13 without installing them.
unpack_from_debian_13() {
    local mirror
    mirror=$(grep -om1 'http[^ ]*' <<<"$(apt-cache policy base-files)")
    mkdir -p "$debian_13"/{lists/partial,cache/archives/partial,unpacked,bin}
    chmod 755 "$debian_13" # apt reads as its own user
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$debian_13/sources.list"
    local options=(-qq -o "Dir::Etc::sourcelist=$PWD/$debian_13/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$PWD/$debian_13/lists" -o "Dir::Cache=$PWD/$debian_13/cache")
    apt-get "${options[@]}" update
    (cd "$debian_13" && apt-get "${options[@]}" download "$@" && for package in *.deb; do dpkg-deb -x "$package" unpacked || exit; done)
}

command -v apt-get >/dev/null || { echo "test_packages: there is no apt-get, which installs the packages: use Debian or Ubuntu" >&2; exit 1; }
as_root apt-get -qq update
available=() missing=()
for package in $(python3 tests/needs.py); do
    if apt-cache show "$package" >/dev/null 2>&1; then available+=("$package"); else missing+=("$package"); fi
done
as_root apt-get -qq install -y --no-install-recommends "${available[@]}" >/dev/null
. /etc/os-release
if [[ $VERSION_CODENAME == bookworm ]] && unpack_from_debian_13 jube/trixie kubectl/trixie; then
    missing=("${missing[@]/kubectl/}")
    ln -sf ../unpacked/usr/bin/kubectl "$debian_13/bin/kubectl"
    # The tests also run with a newer JUBE.
    printf '#!/bin/sh\nPYTHONPATH=%s exec /usr/bin/python3 -c "%s" "$@"\n' \
        "$PWD/$debian_13/unpacked/usr/lib/python3/dist-packages" \
        "import sys; from jube.main import main; sys.argv[0] = 'jube'; sys.exit(main())" >"$debian_13/jube"
    chmod +x "$debian_13/jube"
    "$debian_13/jube" --version
fi
for package in ${missing[@]}; do echo "test_packages: this release has no package $package: the tests that need it are not run"; done
