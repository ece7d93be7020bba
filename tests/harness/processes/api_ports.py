"""Where servers of the API listen beside their public ports."""

from __future__ import annotations

INTERNAL: dict[str, str] = {}
"""The URL for project pods, by that of the public port."""
METRICS: dict[str, str] = {}
"""The URL for Prometheus, by that of the public port."""


def serving(url: str, path: str) -> str:
    """The URL of the port that serves ``path``, of the server whose public port has ``url``."""
    if path.startswith("/internal/"):
        return INTERNAL.get(url, url)
    return METRICS.get(url, url) if path == "/metrics" else url
