"""What roles grant to an account, as the cluster has them, and what of it was never used."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tests.harness.cluster.audit_log import Request, Right
from tests.harness.cluster.kubectl import Kubectl


class Grant(NamedTuple):
    """A right to all objects of a resource, or to those of some names."""

    right: Right
    names: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return " ".join([str(self.right), *sorted(self.names)])


def granted_to(kubectl: Kubectl, namespace: str, account: str) -> set[Grant]:
    """All that bindings give to a ServiceAccount itself (what everybody has comes by groups).

    Fails for wildcards, which grant what nobody has thought of.
    """
    return grants(_rules(kubectl, namespace, account))


def grants(rules: Iterable[dict[str, Any]]) -> set[Grant]:
    """What rules of roles grant."""
    found = set()
    for rule in rules:
        assert not rule.get("nonResourceURLs"), rule
        names = frozenset(rule.get("resourceNames") or ())
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    assert "*" not in (group, resource, verb), rule
                    found.add(Grant(Right(group, resource, verb), names))
    return found


def unused(granted: set[Grant], requests: Iterable[Request]) -> set[Grant]:
    """What no request needed: one that a grant for its object's name allows needs no grant for all objects."""
    needed = {grant for one in requests for right in one.used for grant in _needed(granted, right, one.name)}
    return granted - needed


def _needed(granted: set[Grant], right: Right, name: str) -> list[Grant]:
    named = [one for one in granted if one.right == right and name in one.names]
    return named or [one for one in granted if one.right == right and not one.names]


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
