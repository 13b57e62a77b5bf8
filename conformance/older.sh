#!/usr/bin/env bash
# Makes a copy of this module that drives an older Istio: the module graph is that
# of the tag's own go.mod, and modules that no proxy serves (Istio's pseudo-versions
# of release branches among them) come from git clones, at the commits named there.
# Usage: conformance/older.sh TAG OUT CLONES
#   TAG     a tag of istio/istio, 1.30.3
#   OUT     a folder to make; build there with
#           CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/judge
#   CLONES  a folder with clones (bare or not) named istio, api and client-go and,
#           where the module proxy lacks them, go-control-plane and agentgateway
# Nothing of what it makes belongs into this repository.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tag=$1 out=$2 clones=$(cd "$3" && pwd)
mkdir -p "$out/src" && out=$(cd "$out" && pwd)

# unpack CLONE COMMIT [SUBFOLDER]: prints where that part of the commit now is.
unpack() {
  local to="$out/src/$1@$2"
  if [ ! -d "$to/${3-}" ]; then
    mkdir -p "$to"
    git -C "$clones/$1" archive "$2" ${3:+"$3"} | tar -x -C "$to"
  fi
  echo "$to${3:+/$3}"
}

# commit CLONE VERSION [PREFIX]: what a module version means in its repository.
commit() {
  case $2 in
    *-[0-9]*-????????????) echo "${2##*-}" ;; # pseudo-version
    *) git -C "$clones/$1" rev-parse -q --verify "${3-}$2^{commit}" || git -C "$clones/$1" rev-parse "${3-}${2#v}^{commit}" ;;
  esac
}

istio=$(unpack istio "$tag")
cp -r "$here/cmd" "$here/internal" "$out/"
cp "$istio/go.sum" "$out/go.sum"
sed "s,^module .*,module github.com/mesh-audit/mesh-audit/conformance," "$istio/go.mod" >"$out/go.mod"
cd "$out"
export GOWORK=off GOFLAGS=-mod=mod
go mod edit -require "istio.io/istio@v0.0.0-00010101000000-000000000000" -replace "istio.io/istio=$istio"

# Each module is taken from the proxy if it serves the version, else from a clone.
while read -r module clone folder; do
  version=$(awk -v m="$module" '$1 == m { print $2 }' "$istio/go.mod")
  if [ -z "$version" ] || go mod download "$module@$version" 2>/dev/null; then continue; fi
  at=$(commit "$clone" "$version" "${folder:+$folder/}")
  go mod edit -replace "$module=$(unpack "$clone" "$at" "$folder")"
done <<'MODULES'
istio.io/api api
istio.io/client-go client-go
github.com/envoyproxy/go-control-plane go-control-plane
github.com/envoyproxy/go-control-plane/envoy go-control-plane envoy
github.com/envoyproxy/go-control-plane/contrib go-control-plane contrib
github.com/agentgateway/agentgateway/api agentgateway api
MODULES

# The judge names what it was built from.
hash=$(git -C "$clones/istio" rev-parse --short=12 "$tag^{commit}")
sed -i -e "s,^const Module = .*,const Module = \"istio.io/istio $tag ($hash)\"," \
  -e "s,^const IstioVersion = .*,const IstioVersion = \"$tag\"," \
  -e "s,^const IstioRelease = .*,const IstioRelease = \"$tag\"," internal/report/report.go

# What moved or came after the tag.
if [ ! -d "$istio/pkg/config/mesh/labelselector" ]; then
  sed -i -e 's,istio.io/istio/pkg/config/mesh/labelselector,istio.io/istio/pkg/kube/namespace,' \
    -e 's,labelselector\.,namespace.,' internal/mesh/load.go
fi
if [ ! -d "$istio/pkg/config/mesh/meshwatcher" ]; then
  sed -i -e 's,"istio.io/istio/pkg/config/mesh/meshwatcher",imesh "istio.io/istio/pkg/config/mesh",' \
    -e 's,meshwatcher\.,imesh.,' internal/judge/server.go
fi
for option in EnvoySecureMetricsPort EnvoySecureMergedMetricsPort EnvoySkipDeprecatedLogs; do
  grep -q "$option " "$istio/pkg/bootstrap/config.go" || sed -i "/^\t*$option:/d" internal/judge/node.go
done
if ! grep -q nsAnnotations "$istio/pilot/pkg/serviceregistry/serviceentry/conversion.go"; then
  sed -i '/m.inheritDistribution(o)/d' internal/mesh/emulate.go
fi
if grep -q 'GatewayClass .*"v1beta1"' "$istio/pkg/config/schema/gvr/resources.gen.go"; then
  sed -i 's,sigs.k8s.io/gateway-api/apis/v1",sigs.k8s.io/gateway-api/apis/v1beta1",' internal/judge/server.go
fi
grep -q '^\tForced bool' "$istio/pilot/pkg/model/push_context.go" || sed -i 's/Forced: true/Full: true/' internal/judge/change.go
go mod tidy -e >/dev/null 2>&1 || true
