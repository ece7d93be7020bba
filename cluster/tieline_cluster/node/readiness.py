"""Waiting until programs, and the cluster as a whole, say that they are ready."""

import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tieline_cluster.definition.plan import Plan
from tieline_cluster.errors import ClusterError

POLL_EVERY = 0.05
PROBE_TIMEOUT = 5.0
START_TIMEOUT = 180.0
"""Seconds; a fast machine needs two or three, and a busy small one sometimes sixty."""


def client_context(plan: Plan) -> ssl.SSLContext:
    """TLS that trusts the cluster's authority, as its administrator."""
    context = ssl.create_default_context(cafile=str(plan.certificate("ca")))
    context.load_cert_chain(plan.certificate("admin"), plan.key("admin"))
    return context


def is_ready(ready: str | Path, context: ssl.SSLContext | None) -> bool:
    """Whether the URL answers 200, the socket takes a connection, or the file is there."""
    if isinstance(ready, Path):
        return _accepts(ready) if ready.is_socket() else ready.exists()
    return _get(ready, context) is not None


def default_account_exists(plan: Plan, context: ssl.SSLContext) -> bool:
    """Whether pods can be made in the namespace `default`: the controller manager makes their ServiceAccount."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    return _get(f"{plan.api_url}{path}", context) is not None


def node_is_ready(plan: Plan, context: ssl.SSLContext) -> bool:
    """Whether the node takes pods."""
    node: dict[str, Any] = json.loads(_get(f"{plan.api_url}/api/v1/nodes/{plan.node_name}", context) or "{}")
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not node.get("spec", {}).get("taints")


def _get(url: str, context: ssl.SSLContext | None) -> bytes | None:
    """The body of an answer with status 200; None without such an answer."""
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=PROBE_TIMEOUT) as answer:
            body: bytes = answer.read()
            return body if answer.status == 200 else None
    except (urllib.error.URLError, OSError, ValueError):
        return None


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_TIMEOUT)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def wait_until(
    condition: Callable[[], bool],
    *,
    what: str,
    alive: Callable[[], bool] = lambda: True,
    timeout: float = START_TIMEOUT,
) -> None:
    """Poll `condition`; raise ClusterError when the time is over, or at once when `alive` says no."""
    deadline = time.monotonic() + timeout
    while not condition():
        if not alive():
            raise ClusterError(f"{what} has ended by itself")
        if time.monotonic() > deadline:
            raise ClusterError(f"{what} was not ready after {timeout:.0f} s")
        time.sleep(POLL_EVERY)
