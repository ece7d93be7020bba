"""Objects as ``kubectl get -o json`` prints them, read from the API server over connections that stay open.

Tests wait by asking again and again. A kubectl for each question takes a tenth of a second of processor time, which a
busy machine takes from what is waited for.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3
import yaml

from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as known

_AT_ONCE = 16
_TIMEOUT = urllib3.Timeout(connect=10, read=60)
_NOT_OF_THE_API = frozenset({"secret_type", "object_name", "service"})


class UnreadableError(Exception):
    """Only kubectl can read this: another form of arguments, kind or account."""


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
    content = yaml.load(kubeconfig.read_text(), yaml.CSafeLoader)
    chosen = _named(content, "contexts", context or content.get("current-context"))["context"]
    cluster = _named(content, "clusters", chosen["cluster"])["cluster"]
    user = _named(content, "users", chosen["user"])["user"]
    tls = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        raise UnreadableError
    tls.load_verify_locations(cadata=_data(cluster, "certificate-authority", kubeconfig).decode())
    headers = {}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    else:
        with tempfile.NamedTemporaryFile() as pair:
            parts = [_data(user, f"client-{part}", kubeconfig) for part in ("certificate", "key")]
            pair.write(b"\n".join(parts))
            pair.flush()
            tls.load_cert_chain(pair.name)
    return _Server(cluster["server"], tls, headers)


def _named(content: Mapping[str, Any], kind: str, name: str) -> Any:
    for item in content.get(kind) or ():
        if item["name"] == name:
            return item
    raise UnreadableError


def _data(found: Mapping[str, str], name: str, kubeconfig: Path) -> bytes:
    if f"{name}-data" in found:
        return base64.b64decode(found[f"{name}-data"])
    if name in found:
        return (kubeconfig.parent / found[name]).read_bytes()
    raise UnreadableError
