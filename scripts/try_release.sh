#!/usr/bin/env bash
# Try another release in a chroot, as a new user would: set-up, the tests that depend on versions, and a point of each kind
# of GPT. Needs root.
# Usage: try_release.sh trixie|noble        (Debian 13 or Ubuntu 24.04; takes 8 GB and about 5 minutes)
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
release=${1:?usage: try_release.sh trixie|noble}
case $release in
trixie) sections=main ;;
noble) sections=main,universe ;;
*) echo "try_release: there is no release '$release': trixie or noble" >&2; exit 2 ;;
esac
[[ $(id -u) == 0 ]] || { echo "try_release: a chroot needs root: run this with sudo" >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo "try_release: mmdebstrap is missing: make test-packages" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
options=(--quiet --variant=minbase "--components=$sections" --include=apt,make,git,gcc,libc6-dev,python3,python3-venv,ca-certificates)
if [[ $release == noble && ! -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]]; then
    options+=(--aptopt='Acquire::AllowInsecureRepositories "true"' --aptopt='APT::Get::AllowUnauthenticated "true"')
fi
mmdebstrap "${options[@]}" "$release" "$root" # from its default mirror of the release
cp /etc/resolv.conf /etc/hosts "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # including a site's own
git clone --quiet . "$root/root/caraml"
cat >"$root/root/try" <<'END'
set -euo pipefail
cd /root/caraml
make setup
scripts/setup.sh llm resnet inference report darshan dev
export PATH=$PWD/.venv/bin:$PATH
# What differs there: Python (its warnings are errors), megatron-core, and commands that the system's Python starts.
pytest -q -n auto --maxprocesses 8 --dist loadfile -m 'not slow and not long' \
    benchmarks/common benchmarks/llm_training caraml/tests/test_cli.py ioprof jpwr/tests/test_command.py tests
for size in tiny tiny-llama tiny-moe; do
    CARAML_DEVICES=1 CARAML_BATCHES=8 jube run jube/llm.yaml --tag CPU "$size" once >/dev/null
    jube result jube/llm_run --id last
    caraml check jube/llm_run
done
END
# In its own mount namespace, so that the mounts end with it. Not every test can run there: PyDarshan has no wheel for it.
unshare --mount --propagation private bash -c '
    for name in proc sys dev; do mount --rbind "/$name" "$1/$name"; done
    exec chroot "$1" env -u CARAML_REQUIRE_ALL HOME=/root CARAML_TORCH="${CARAML_TORCH:-index}" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash /root/try' - "$root"
echo "try_release: $release passed in $SECONDS s"
