#!/usr/bin/env bash
# Build the sampler's distribution of the last commit into dist/, and install it in a fresh environment.
# Usage: release_check.sh
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
version=$(python -c 'import jpwr; print(jpwr.__version__)')
fail() { printf 'release_check: %s\n' "$*" >&2; exit 1; }

grep -q "^## $version - 20" CHANGELOG.md || fail "CHANGELOG.md has no version $version with a date: write it with towncrier build"
grep -qx "version: $version" CITATION.cff || fail "CITATION.cff is of another version than $version: change it"

rm -rf dist
mkdir dist
out=$PWD/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet . "$work/caraml" # without files that were built here
(cd "$work/caraml/jpwr" && python -c "from setuptools import build_meta; build_meta.build_sdist('$out')") >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; fail "the sdist could not be built"; }
pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz

python -m venv "$work/env"
"$work/env/bin/pip" install --quiet --disable-pip-version-check dist/*.whl
cd "$work" # away from the checkout
[[ $(env/bin/jpwr --version) == "jpwr $version" ]] || fail "the installed jpwr is of another version than $version"
echo "release_check: $version passed in $SECONDS s, in dist/"
