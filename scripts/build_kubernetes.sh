#!/usr/bin/env bash
# Build the server programs of Kubernetes 1.20 from Debian 12's source package, which includes its dependencies.
# Does nothing if they exist. Takes about 8 minutes on two cores, and 3 GB.
# Usage: build_kubernetes.sh FOLDER
# Needs: apt-get install golang-go golang-github-modern-go-reflect2-dev dpkg-dev
set -euo pipefail
folder=$(mkdir -p "${1:?usage: build_kubernetes.sh FOLDER}" && cd "$1" && pwd)
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)

missing=()
for program in "${programs[@]}"; do [[ -x $folder/$program ]] || missing+=("$program"); done
((${#missing[@]})) || exit 0
for tool in go dpkg-source; do
    command -v "$tool" >/dev/null || {
        echo "build_kubernetes: there is no $tool: apt-get install golang-go golang-github-modern-go-reflect2-dev dpkg-dev" >&2
        exit 1
    }
done

tree=$folder/tree source=$folder/tree/go/src/k8s.io/kubernetes
if [[ ! -e $source/fetched ]]; then
    echo "build_kubernetes: fetching the source"
    rm -rf "$tree"
    mkdir -p "$tree"/lists/partial "${source%/*}"
    mirror=$(grep -om1 'http[^ ]*' <<<"$(apt-cache policy bash)") || {
        echo "build_kubernetes: apt-cache has no mirror to fetch the source from: run apt-get update" >&2
        exit 1
    }
    echo "deb-src [trusted=yes] $mirror bookworm main" >"$tree/sources.list"
    from=(-qq -o "Dir::Etc::sourcelist=$tree/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$tree/lists")
    apt-get "${from[@]}" update
    (cd "$tree" && apt-get "${from[@]}" source kubernetes)
    mv "$tree"/kubernetes-*/ "$source"
    # The included reflect2 fails with Go 1.18 and newer; Debian's own does not.
    vendored=$source/vendor/github.com/modern-go/reflect2
    rm -rf "$vendored"
    cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 "$vendored"
    rm -f "$vendored"/*_test.go
    touch "$source/fetched"
fi

cd "$source"
export GOPATH=$tree/go GOCACHE=$tree/cache HOME=$tree GO111MODULE=off CGO_ENABLED=0 GOFLAGS=
k8s=k8s.io/kubernetes
if [[ ! -e generated ]]; then
    echo "build_kubernetes: generating the description of the API"
    go build -o "$tree/openapi-gen" $k8s/vendor/k8s.io/kube-openapi/cmd/openapi-gen
    staged=(api apimachinery/pkg apiextensions-apiserver kube-aggregator apiserver metrics kube-controller-manager kube-proxy
        kube-scheduler kubelet)
    described=$({
        grep -rl --include=doc.go '+k8s:openapi-gen=true' "${staged[@]/#/vendor/k8s.io/}" pkg cmd
        find -L "${staged[@]/#/vendor/k8s.io/}" -name '*.go' -not -name '*_test.go' -print0 |
            xargs -0 grep -l '+k8s:openapi-gen=true'
    } | xargs -n 1 dirname | sort -u | sed "s#^#$k8s/#" | paste -sd ,)
    "$tree/openapi-gen" -h /dev/null -O zz_generated.openapi -p $k8s/pkg/generated/openapi -r "$tree/violations" -i "$described"
    touch generated
fi
version=$(sed -n '1s/.*really\([0-9.]*\)-.*/\1/p' debian/changelog)
version_flags=""
for package in component-base/version client-go/pkg/version; do
    is="-X $k8s/vendor/k8s.io/$package.git"
    version_flags+=" ${is}Version=v$version ${is}Major=1 ${is}Minor=20"
done
for program in "${missing[@]}"; do
    echo "build_kubernetes: building $program"
    go build -ldflags "-s -w$version_flags" -o "$folder/$program" "$k8s/cmd/$program"
done
