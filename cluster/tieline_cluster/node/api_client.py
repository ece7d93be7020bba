"""The few questions that bringing a cluster up asks its API server."""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from tieline_cluster.definition.plan import Plan
from tieline_cluster.node.readiness import PROBE_TIMEOUT


class Api:
    """The API server of a plan's cluster, as its administrator."""

    def __init__(self, plan: Plan, context: ssl.SSLContext) -> None:
        self._plan = plan
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def default_account_exists(self) -> bool:
        """Whether pods can be made in the namespace `default`: the controller manager makes their ServiceAccount."""
        return self._get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def node_is_ready(self) -> bool:
        """Whether the node takes pods."""
        node = self._get(f"/api/v1/nodes/{self._plan.node_name}") or {}
        conditions = node.get("status", {}).get("conditions", [])
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        return ready and not node.get("spec", {}).get("taints")

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            with self._opener.open(f"{self._plan.api_url}{path}", timeout=PROBE_TIMEOUT) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (urllib.error.URLError, OSError, ValueError):
            return None
