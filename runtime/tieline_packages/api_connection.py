"""Connections to the API. Standard library only."""

import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult


def api_connection(url: SplitResult, env: Mapping[str, str], *, timeout: float) -> http.client.HTTPConnection:
    """A connection that is not made yet. The API is verified by the authorities in TIELINE_API_CA_FILE, if it is set.

    ``timeout`` is in seconds. Raises OSError where that file cannot be used.
    """
    host, port = url.hostname or "", url.port
    if url.scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=timeout)
    context = ssl.create_default_context(cafile=env.get("TIELINE_API_CA_FILE") or None)
    return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
