#!/usr/bin/env bash
# Build both distributions of the last commit into dist/, check them as an index does, and install them in a fresh
# environment. Everything but the upload of a release.
# Usage: release_check.sh
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
version=$(python -c 'import jpwr; print(jpwr.__version__)')
fail() { printf 'release_check: %s\n' "$*" >&2; exit 1; }

grep -q "^## $version - 20" CHANGELOG.md || fail "CHANGELOG.md has no version $version with a date: write it with towncrier build"
grep -qx "version: $version" CITATION.cff || fail "CITATION.cff is of another version than $version: change it"
for readme in README.md jpwr/README.md ioprof/README.md; do
    python -m readme_renderer "$readme" >/dev/null || fail "$readme cannot be rendered"
done

rm -rf dist
mkdir dist
out=$PWD/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet . "$work/caraml" # without files that were built here
for project in jpwr .; do
    (cd "$work/caraml/$project" && python -c "from setuptools import build_meta; build_meta.build_sdist('$out')") >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; fail "the sdist of $project could not be built"; }
done
pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz
twine check --strict dist/*

python -m venv "$work/env"
"$work/env/bin/pip" install --quiet --disable-pip-version-check dist/*.whl
cd "$work" # away from the checkout
for command in caraml ioprof jpwr; do
    [[ $("env/bin/$command" --version) == "$command $version" ]] || fail "the installed $command is of another version than $version"
done
env/bin/caraml table "$OLDPWD/results/records" >/dev/null
echo "release_check: $version passed in $SECONDS s, in dist/"
