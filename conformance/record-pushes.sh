#!/usr/bin/env bash
# Records what Istio's own server sends to connected proxies because of a change,
# for the plugin's ordinary tests: testdata/pushes/base.yaml is the mesh, each other
# file there a change: objects that come, or replace those of the same name, and in
# comments "# delete: KIND/NAMESPACE/NAME" those that go.
# Usage: conformance/record-pushes.sh [NAME ...]
set -euo pipefail
cd "$(dirname "$0")/.."
dir=testdata/pushes judge=conformance/bin/judge
if [ $# -eq 0 ]; then
  set -- $(basename -s .yaml -a $dir/*.yaml | grep -vx base)
  rm -f $dir/*.json
fi
for name in "$@"; do
  gone=()
  while read -r key; do gone+=(-without "$key"); done < <(sed -n 's/^# delete: //p' "$dir/$name.yaml")
  "$judge" -f $dir/base.yaml -then $dir/base.yaml -then "$dir/$name.yaml" "${gone[@]}" -o "$dir/$name.json"
done
