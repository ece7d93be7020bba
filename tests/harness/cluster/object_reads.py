"""Objects as ``kubectl get -o json`` prints them, read from the API server over connections that stay open.

Tests wait by asking again and again. A kubectl for each question takes a tenth of a second of processor time, which a
busy machine takes from what is waited for.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3

from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as known
from tieline_core.kubernetes.kubeconfig import connection

_AT_ONCE = 16
_TIMEOUT = urllib3.Timeout(connect=10, read=60)
_NOT_OF_THE_API = frozenset({"secret_type", "object_name", "service"})


class UnreadableError(Exception):
    """Only kubectl can read this: another form of arguments, another kind, or a server behind a proxy."""


def read(kubeconfig: Path, context: str | None, what: tuple[str, ...], namespace: str | None) -> Any:
    """The object or the list that ``kubectl get <what> -o json`` prints.

    Raises UnreadableError, and AssertionError where the API server has no such object or does not answer.
    """
    kind, name, selector = _parts(what)
    resource = _resources().get(kind.lower())
    if resource is None or (namespace is None and resource.namespaced):
        raise UnreadableError
    path = resource.path(namespace=namespace, name=name)
    if selector:
        path += f"?labelSelector={quote(selector)}"
    server = _server(kubeconfig, kubeconfig.stat().st_mtime_ns, context)
    found = server.get(path)
    if name is not None:
        return _shown(found)
    one = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**found, "kind": "List", "items": [_shown({**one, **item}) for item in found["items"]]}


def _parts(what: tuple[str, ...]) -> tuple[str, str | None, str]:
    """The kind, the name and the selector of arguments."""
    match what:
        case (kind,):
            return kind, None, ""
        case (kind, "-l", selector):
            return kind, None, selector
        case (kind, name) if not name.startswith("-"):
            return kind, name, ""
        case _:
            raise UnreadableError


def _shown(obj: dict[str, Any]) -> dict[str, Any]:
    obj["metadata"].pop("managedFields", None)
    return obj


@lru_cache(maxsize=1)
def _resources() -> Mapping[str, Resource]:
    """Resources by the names that kubectl takes: singular, plural, and with the group."""
    found: dict[str, Resource] = {}
    for resource in vars(known).values():
        if isinstance(resource, Resource) and not any(getattr(resource, one) for one in _NOT_OF_THE_API):
            for name in (resource.plural, resource.kind.lower()):
                found[f"{name}.{resource.group}"] = resource
                if resource != known.EVENTS:  # kubectl's are those of the core group
                    found[name] = resource
    return found


class _Server:
    """The API server of a context, as its user."""

    def __init__(self, url: str, tls: ssl.SSLContext, headers: Mapping[str, str]) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(
            maxsize=_AT_ONCE, ssl_context=tls, headers=headers, retries=False, timeout=_TIMEOUT
        )

    def get(self, path: str) -> Any:
        try:
            answer = self._pool.request("GET", f"{self._url}{path}")
        except urllib3.exceptions.HTTPError as error:
            raise AssertionError(f"The API server does not answer at {path}: {error}") from None
        assert answer.status == 200, f"{path}: {answer.status} {answer.data.decode(errors='replace')[:500]}"
        return json.loads(answer.data)


@lru_cache(maxsize=16)
def _server(kubeconfig: Path, _changed: int, context: str | None) -> _Server:
    # In a thread, because tests may have a loop of their own.
    with ThreadPoolExecutor(1) as thread:
        url, tls, authorization = thread.submit(asyncio.run, _connected(kubeconfig, context)).result()
    return _Server(url, tls, {"Authorization": authorization} if authorization else {})


async def _connected(kubeconfig: Path, context: str | None) -> tuple[str, ssl.SSLContext, str | None]:
    found = await connection(kubeconfig=kubeconfig, context=context)
    if isinstance(found.tls, bool) or found.proxy or found.server_hostname:
        raise UnreadableError
    return found.url, found.tls, await found.authorization()
