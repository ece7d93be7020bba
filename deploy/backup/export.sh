#!/bin/sh
# Writes an organisation to standard output, as one List that restore.sh reads. It holds secrets: encrypt it.
#   deploy/backup/export.sh NAMESPACE > organisation.json
# Needs kubectl and jq. What it takes, and what not, is in docs/backup.md.
set -eu

if [ $# -ne 1 ]; then
    echo "Usage: $0 NAMESPACE > organisation.json" >&2
    exit 2
fi
umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

kubectl get namespace "$1" -o json >"$work/namespace.json"
# Connections before Secrets: tokens that are rotated meanwhile are the newer ones.
kubectl get tieline -n "$1" -o json --show-managed-fields >"$work/tieline.json"
kubectl get configmaps,secrets,serviceaccounts,roles.rbac.authorization.k8s.io,rolebindings.rbac.authorization.k8s.io,resourcequotas,limitranges \
    -n "$1" -o json --show-managed-fields >"$work/others.json"

jq -s '
    def owners: .metadata.ownerReferences // [];
    def ours: all(owners[]; .apiVersion | startswith("tieline.dev/"));
    # Children that the operator makes again, what Kubernetes makes by itself, and logins under way.
    def made_again:
        (.kind == "ServiceAccount" and ((owners | length) > 0 or .metadata.name == "default"))
        or (.kind == "ConfigMap" and (.metadata.name == "kube-root-ca.crt" or .metadata.name == "tieline-organisations"))
        or (.kind == "Secret" and (.type == "kubernetes.io/service-account-token" or .type == "tieline.dev/oauth-state" or .type == "tieline.dev/engine-credentials"));
    .[0] as $namespace
    | [.[1:][].items[] | select(.metadata.deletionTimestamp == null and ours and (made_again | not))]
    | sort_by(.metadata.creationTimestamp)
    | {apiVersion: "v1", kind: "List", items: ([$namespace] + .)}
    | .items[] |= (
        del(.metadata.uid, .metadata.resourceVersion, .metadata.generation, .metadata.creationTimestamp)
        | if .kind == "Namespace" then del(.spec, .status, .metadata.managedFields) else . end)
' "$work/namespace.json" "$work/tieline.json" "$work/others.json"
