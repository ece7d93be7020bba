#!/bin/sh
# Brings back an organisation that export.sh has written, while no operator works:
#   kubectl -n tieline-system scale deployment tieline-operator --replicas=0
#   deploy/backup/restore.sh organisation.json
#   kubectl -n tieline-system scale deployment tieline-operator --replicas=1
# Needs kubectl and jq. Why it does what it does is in docs/backup.md.
set -eu

if [ $# -ne 1 ]; then
    echo "Usage: $0 organisation.json" >&2
    exit 2
fi
umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

namespace=$(jq -r '.items[] | select(.kind == "Namespace") | .metadata.name' "$1")
if [ -z "$namespace" ]; then
    echo "$1 was not written by export.sh: it has no Namespace" >&2
    exit 2
fi
jq '.items[] | select(.kind == "Namespace")' "$1" >"$work/namespace.json"
kubectl get namespace "$namespace" >/dev/null 2>&1 || kubectl create -f "$work/namespace.json"
kubectl get tieline -n "$namespace" -o name >"$work/there.txt"
if [ -s "$work/there.txt" ]; then
    echo "Namespace $namespace holds objects of Tieline already: delete it first" >&2
    exit 1
fi

# Owners first. Every reference gets its owner's new uid: with the old one Kubernetes would delete the object.
jq '[.items[] | select(.kind != "Namespace")]' "$1" >"$work/left.json"
echo '[]' >"$work/restored.json"
while [ "$(jq length "$work/left.json")" -gt 0 ]; do
    kubectl get tieline -n "$namespace" -o json >"$work/there.json"
    jq '[.items[] | {key: "\(.kind)/\(.metadata.name)", value: .metadata.uid}] | from_entries' \
        "$work/there.json" >"$work/known.json"
    jq --slurpfile known "$work/known.json" '
        def has_owners: all(.metadata.ownerReferences[]?; $known[0]["\(.kind)/\(.name)"]);
        {now: [.[] | select(has_owners) | if .metadata.ownerReferences then
                .metadata.ownerReferences[] |= (.uid = $known[0]["\(.kind)/\(.name)"]) else . end],
         later: [.[] | select(has_owners | not)]}' "$work/left.json" >"$work/split.json"
    if [ "$(jq '.now | length' "$work/split.json")" -eq 0 ]; then
        echo "Left out, because their owners are not in $1:" >&2
        jq -r '.later[] | "  \(.kind) \(.metadata.name)"' "$work/split.json" >&2
        break
    fi
    # kubectl would write the annotation of "kubectl apply" anew, with all that an object has: it comes last.
    jq '{apiVersion: "v1", kind: "List", items: [.now[]
            | del(.status, .metadata.managedFields)
            | del(.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"])]}' \
        "$work/split.json" >"$work/create.json"
    kubectl create -f "$work/create.json" >/dev/null
    jq -s '.[0] + .[1].now' "$work/restored.json" "$work/split.json" >"$work/more.json"
    mv "$work/more.json" "$work/restored.json"
    jq .later "$work/split.json" >"$work/left.json"
done

# What the operator remembers in the status: the id, which files a pinned environment left, the last valid variables.
# What it said of workloads is no longer true: Ready is Unknown until the operator has seen the object.
jq 'def unknown($now): [.[]? | select(.type | IN("Ready", "Reconciling", "Stalled") | not)]
        + [{type: "Ready", status: "Unknown", reason: "Restored", observedGeneration: 0,
            message: "Restored from a backup; the operator has not seen it yet", lastTransitionTime: $now}];
    (now | todate) as $now
    | {apiVersion: "v1", kind: "List", items: [.[]
        | select((.apiVersion | startswith("tieline.dev/")) and .status)
        | .status.conditions |= unknown($now)
        | del(.status.observedGeneration)
        | if .status.environments then
            .status.environments |= [.[] | if .status == "running" then .status = "draft" else . end
                | if .readyReplicas then .readyReplicas = 0 else . end]
            | .status.summary = ([.status.environments[] | "\(.name): \(.status)"] | join(", ") | .[:256])
          else . end
        | del(.metadata.managedFields)
        | del(.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"])]}' \
    "$work/restored.json" >"$work/status.json"
if [ "$(jq '.items | length' "$work/status.json")" -gt 0 ]; then
    kubectl replace --subresource=status -f "$work/status.json" >/dev/null
fi

# Whose the fields are: without this, all would be kubectl's, and the REST API could change none of them.
jq '{apiVersion: "v1", kind: "List", items: [.[]
        | select((.apiVersion | startswith("tieline.dev/")) and .metadata.managedFields)
        | del(.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"])]}' \
    "$work/restored.json" >"$work/fields.json"
if [ "$(jq '.items | length' "$work/fields.json")" -gt 0 ]; then
    kubectl replace -f "$work/fields.json" >/dev/null
fi

# What "kubectl apply" applied last, just as it was: the next apply removes what it names and the manifest does not.
# Ids never belong there (earlier releases of this script put them in).
jq -c '.[]
    | (.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"] // empty) as $last
    | {object: {apiVersion, kind, metadata: {name: .metadata.name, namespace: .metadata.namespace}},
       patch: {metadata: {annotations: {"kubectl.kubernetes.io/last-applied-configuration":
            ($last | if contains("tieline.dev/id") then
                (fromjson | del(.metadata.labels["tieline.dev/id"]) | tojson) + "\n" else . end)}}}}' \
    "$work/restored.json" >"$work/applied.jsonl"
while IFS= read -r line; do
    printf '%s' "$line" | jq .object >"$work/object.json"
    printf '%s' "$line" | jq .patch >"$work/patch.json"
    kubectl patch -f "$work/object.json" --type=merge --field-manager=kubectl-client-side-apply \
        --patch-file="$work/patch.json" >/dev/null
done <"$work/applied.jsonl"
echo "Restored $(jq length "$work/restored.json") objects of organisation $namespace"
