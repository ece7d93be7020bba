"""Reading one's own writes through any replica.

A write answers with ``X-Tieline-Revision``: what it wrote, as ``systems:812`` (the resourceVersion) or
``systems:-<name>/<uid>`` (deleted), separated by commas. A client that sends the header back with its next
request gets an answer that knows these writes: a replica whose caches are behind waits for them, and answers
503 rather than with something older. Versions are compared within one resource only (KEP-5504).
"""

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tieline_api import errors
from tieline_core.identity.ids import change_id, object_id
from tieline_core.kubernetes import Informer

HEADER = "X-Tieline-Revision"
_MOST = 50
_MAX_HEADER = 8192
_PAUSE = 0.01
_WRITTEN = re.compile(r"(?P<plural>[a-z]{1,40}):(?P<version>[0-9]{1,20})")
_DELETED = re.compile(r"(?P<plural>[a-z]{1,40}):-(?P<name>[a-z0-9.-]{1,253})/(?P<uid>[0-9a-f-]{1,64})")


@dataclass(frozen=True)
class ObjectChange:
    """An object before and after a write; None where there was or is none."""

    plural: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True)
class SentRequest:
    """A request that went through a connection, without its query."""

    method: str
    host: str
    path: str


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call of a tool that does not only read, by an agent."""

    tool: str
    kind: str
    """The kind of what it is about."""
    object: str
    """Its id, as it was given."""
    status: int = 0
    """Of the platform's refusal; 0 where there was none."""
    code: str = ""
    """Of the refusal."""


@dataclass
class Writes:
    """What a request wrote."""

    versions: dict[str, str] = field(default_factory=dict)
    written: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Objects by ``plural/namespace/name``, as they are since."""
    deleted: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    changes: list[ObjectChange] = field(default_factory=list)
    """Writes of custom resources, for the audit."""
    sent: list[SentRequest] = field(default_factory=list)
    """Requests through connections, for the audit."""
    tool: ToolCall | None = None
    """The tool that an agent called, for the audit."""

    def log_fields(self) -> dict[str, Any]:
        """What the request's line says of it; empty when nothing was written."""
        generations = {name: obj["metadata"].get("generation") for name, obj in self.written.items()}
        said = {
            "wrote": {name: generation for name, generation in generations.items() if generation},
            "changes": [change_id(obj) for obj in self.written.values()],
            "deleted": {_named(plural, obj): object_id(obj) for plural, obj in self.deleted[:_MOST]},
        }
        return {key: value for key, value in said.items() if value}

    def header(self) -> str | None:
        """The header's value; None when nothing was written."""
        items = [f"{plural}:{version}" for plural, version in self.versions.items()]
        items += [
            f"{plural}:-{obj['metadata']['name']}/{obj['metadata']['uid']}" for plural, obj in self.deleted
        ]
        return ",".join(items[:_MOST]) or None


_writes: ContextVar[Writes | None] = ContextVar("tieline_writes", default=None)


def recording() -> Writes:
    """Begins to note the writes of the current request, and those of tasks that it starts."""
    writes = Writes()
    _writes.set(writes)
    return writes


def wrote(plural: str, obj: Mapping[str, Any]) -> None:
    """Notes a write by what it returned."""
    writes = _writes.get()
    if writes is None:
        return
    name, version = _named(plural, obj), obj["metadata"]["resourceVersion"]
    if name in writes.written or len(writes.written) < _MOST:
        writes.written[name] = obj
    if str(version).isdecimal():
        writes.versions[plural] = str(max(int(version), int(writes.versions.get(plural, "0"))))


def deleted(plural: str, obj: Mapping[str, Any]) -> None:
    """Notes a deletion."""
    writes = _writes.get()
    if writes is not None:
        writes.deleted.append((plural, obj))


def changed(plural: str, *, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
    """Notes what a write changed."""
    writes = _writes.get()
    if writes is not None and len(writes.changes) < _MOST:
        writes.changes.append(ObjectChange(plural, before, after))


def sent(request: SentRequest) -> None:
    """Notes a request through a connection."""
    writes = _writes.get()
    if writes is not None and len(writes.sent) < _MOST:
        writes.sent.append(request)


def called(tool: ToolCall) -> None:
    """Notes the call of a tool."""
    writes = _writes.get()
    if writes is not None:
        writes.tool = tool


def _named(plural: str, obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    return f"{plural}/{metadata['namespace']}/{metadata['name']}"


async def wait(header: str, caches: Iterable[Informer[Any]], *, namespace: str, seconds: float) -> None:
    """Returns when the caches know what ``header`` tells of. ApiError: 400, or 503 after ``seconds``."""
    by_plural = {cache.resource.plural: cache for cache in caches}
    until = time.monotonic() + seconds
    for item in _items(header):
        written, gone = _WRITTEN.fullmatch(item), _DELETED.fullmatch(item)
        found = written or gone
        cache = by_plural.get(found["plural"]) if found else None
        if found is None or cache is None:
            raise errors.malformed(
                f"{HEADER} is none of ours: send back what a write has answered, unchanged"
            )
        left = max(0.0, until - time.monotonic())
        if written:
            known = await cache.reached(written["version"], left)
        else:
            known = await _is_gone(cache, namespace, found["name"], found["uid"], until)
        if not known:
            raise errors.unavailable(
                f"This replica does not know what {HEADER} tells of yet: try again in a moment", retry_after=1
            )


async def _is_gone(cache: Informer[Any], namespace: str, name: str, uid: str, until: float) -> bool:
    while True:
        obj = cache.get(namespace, name)
        if obj is None or obj["metadata"]["uid"] != uid:
            return True
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(_PAUSE)


def _items(header: str) -> list[str]:
    if len(header) > _MAX_HEADER:
        raise errors.malformed(f"{HEADER} is too long")
    items = [item.strip() for item in header.split(",")]
    return items[:_MOST]
