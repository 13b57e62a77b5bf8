#!/usr/bin/env bash
# Records what istiod's own generators send, so that the plugin's ordinary tests
# check fidelity without building Istio: for the demo mesh and random meshes, the
# completed input and the judge's answer, in testdata/oracle/<istio version>/; and
# the answers beside the meshes of testdata/regressions.
# Usage: conformance/record.sh FIRST_SEED LAST_SEED [TAG COPY]
#   TAG COPY  an older Istio and the copy that conformance/older.sh made for it,
#             with judge and genmesh built in COPY/bin; default: this module's Istio.
#             The regressions are left out there.
# The Gateway API, which is not modelled, is left out of all.
set -euo pipefail
cd "$(dirname "$0")/.."
first=${1:-1} last=${2:-50} line=${3:-1.31} bin=${4:-conformance}/bin
out=testdata/oracle/$line
make -s build
if [ $# -lt 4 ]; then
  (cd conformance && CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/judge ./cmd/genmesh)
fi
rm -rf "$out" && mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

record() {
  local name=$1
  "$bin/judge" -f "$work/$name.yaml" -repeat 6 -o "$work/$name.json" || return 1
  gzip -9 -n -c "$work/$name.yaml" >"$out/$name.yaml.gz"
  gzip -9 -n -c "$work/$name.json" >"$out/$name.json.gz"
}

bin/kubectl-mesh_audit complete --demo ${3:+--istio-version "$3"} >"$work/demo.yaml"
record demo
for seed in $(seq "$first" "$last"); do
  name=$(printf 'seed-%04d' "$seed")
  "$bin/genmesh" -seed "$seed" -without gateway.networking.k8s.io >"$work/raw.yaml"
  bin/kubectl-mesh_audit complete -q -f "$work/raw.yaml" >"$work/$name.yaml" || continue
  record "$name" || echo "not recorded: $name" >&2
done
if [ $# -ge 4 ]; then exit; fi
for mesh in testdata/regressions/*.yaml; do
  [ -e "$mesh" ] || continue
  "$bin/judge" -f "$mesh" -lenient -repeat 6 -o "${mesh%.yaml}.json"
done
