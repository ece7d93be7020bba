"""Pods that serve, and taking one away as a drain of its node does."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.cluster.kubectl import Kubectl


def serves(pod: dict[str, Any]) -> bool:
    """Whether it is ready, and not on its way out."""
    conditions = pod["status"].get("conditions", ())
    return "deletionTimestamp" not in pod["metadata"] and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )


def evict(kubectl: Kubectl, namespace: str, pod: str) -> bool:
    """Whether Kubernetes lets it go; a disruption budget may say no."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    done = kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction), check=False)
    assert done.returncode == 0 or "disruption budget" in done.stderr, done.stderr
    return done.returncode == 0
