"""What roles grant to an account, as the cluster has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.harness.cluster.audit_log import Right
from tests.harness.cluster.kubectl import Kubectl


def granted_to(kubectl: Kubectl, namespace: str, account: str) -> set[Right]:
    """All that bindings give to a ServiceAccount itself (what everybody has comes by groups).

    Fails for wildcards, which grant what nobody has thought of.
    """
    found = set()
    for rule in _rules(kubectl, namespace, account):
        assert not rule.get("nonResourceURLs"), rule
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    assert "*" not in (group, resource, verb), rule
                    found.add(Right(group, resource, verb))
    return found


def _rules(kubectl: Kubectl, namespace: str, account: str) -> Iterator[dict[str, Any]]:
    bindings = json.loads(kubectl("get", "clusterrolebindings,rolebindings", "-A", "-o", "json").stdout)
    wanted = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    for binding in bindings["items"]:
        if wanted not in binding.get("subjects", ()):
            continue
        reference = binding["roleRef"]
        role = kubectl(
            "get",
            reference["kind"],
            reference["name"],
            "-o",
            "json",
            namespace=binding["metadata"].get("namespace"),
        )
        yield from json.loads(role.stdout).get("rules") or ()
