#!/bin/sh
# Writes the keys of the event engine, and which namespace is which organisation, to standard output, as one List for
# "kubectl apply". It holds secrets: encrypt it.
#   deploy/backup/export-engine.sh NAMESPACE > engine.json
# NAMESPACE is that of the release. Needs kubectl and jq. What is in it, and what not, is in docs/backup.md.
set -eu

if [ $# -ne 1 ]; then
    echo "Usage: $0 NAMESPACE > engine.json" >&2
    exit 2
fi
umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

kubectl get secret tieline-engine-trust -n "$1" -o json >"$work/trust.json"
kubectl get secret/tieline-engine-config secret/tieline-engine-api configmap/tieline-organisations \
    -n "$1" -o json --ignore-not-found >"$work/others.json"

jq -s '
    {apiVersion: "v1", kind: "List",
     items: [.[] | if .kind == "List" then .items[] else . end
        | {apiVersion, kind, type, data,
           metadata: (.metadata | {name, labels, annotations}
                | del(.annotations["kubectl.kubernetes.io/last-applied-configuration"]?)
                | with_entries(select(.value != null and .value != {})))}
        | with_entries(select(.value != null))]}
' "$work/trust.json" "$work/others.json"
