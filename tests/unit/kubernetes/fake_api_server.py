"""An API server in memory: enough of list, watch and optimistic concurrency to break a client's connection.

Only for what a real server cannot be made to do on demand. What a real one says is tested against a real one.
"""

import asyncio
import copy
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
from aiohttp import web
from kubernetes.aio.client import Configuration

from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.kubeconfig import ClusterConnection
from tieline_core.kubernetes.resources import CONFIG_MAPS, Resource

Object = dict[str, Any]
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def status_object(code: int, reason: str, message: str = "", **details: Any) -> Object:
    """The API server's Status, as it answers a call that it refuses."""
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
        "metadata": {},
    }


def refuse(
    code: int, reason: str = "", message: str = "", *, headers: dict[str, str] | None = None, **details: Any
) -> Answer:
    """An answer that refuses one call."""

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return _json(status_object(code, reason, message, **details), code, headers=headers)

    return answer


async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
    """An answer that is none: the connection breaks."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def hang(seconds: float) -> Answer:
    """An answer that takes too long."""

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return _json({}, 200)

    return answer


def stream(*chunks: bytes, then_break: bool = False) -> Answer:
    """A watch that sends these very bytes, in these chunks."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.002)
        if then_break and request.transport is not None:
            request.transport.abort()
        return response

    return answer


def line(kind: str, obj: Object) -> bytes:
    """One watch event on the wire."""
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


@dataclass
class Seen:
    """A request that arrived."""

    verb: str
    path: str
    query: dict[str, str]


@dataclass
class FakeApiServer:
    """One resource's objects, their history, and what to do wrong next."""

    resource: Resource = CONFIG_MAPS
    url: str = ""
    configuration: Configuration = field(default_factory=Configuration)
    revision: int = 100
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    history: list[tuple[int, str, Object]] = field(default_factory=list)
    compacted: int = 0
    served: bool = True
    silent: bool = False
    answers: deque[Answer] = field(default_factory=deque)
    """Answers to the next calls that are no watches."""
    watch_answers: deque[Answer] = field(default_factory=deque)
    seen: list[Seen] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _watching: dict[int, web.BaseRequest] = field(default_factory=dict)
    _uids: int = 0

    @classmethod
    @asynccontextmanager
    async def running(cls, resource: Resource = CONFIG_MAPS) -> AsyncIterator[Self]:
        """A server on a port of its own."""
        self = cls(resource=resource)
        runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self.end_watches()
            await runner.cleanup()

    def client(self, **options: Any) -> Kube:
        """A client of this server; close it."""
        return Kube(ClusterConnection(url=self.url, tls=True, configuration=self.configuration), **options)

    # --- what other people do on the server --------------------------------------------------------------

    def put(self, name: str, namespace: str = "acme", **content: Any) -> Object:
        """Create or change an object; returns what a writer would be answered."""
        old = self.objects.get((namespace, name))
        self.revision += 1
        if old is None:
            self._uids += 1
        obj = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            **content,
            "metadata": {
                **content.get("metadata", {}),
                "name": name,
                "namespace": namespace,
                "uid": old["metadata"]["uid"] if old else f"uid-{self._uids}",
                "resourceVersion": str(self.revision),
            },
        }
        self.objects[namespace, name] = obj
        self._tell("MODIFIED" if old else "ADDED", obj)
        return copy.deepcopy(obj)

    def remove(self, name: str, namespace: str = "acme") -> Object:
        """Delete an object; returns its last state."""
        obj = copy.deepcopy(self.objects.pop((namespace, name)))
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self._tell("DELETED", obj)
        return obj

    def bookmark(self) -> None:
        """Something happens elsewhere, and all watches are told how far they are."""
        self.revision += 1
        self._tell("BOOKMARK", {"metadata": {"resourceVersion": str(self.revision)}})

    def compact(self) -> None:
        """Forget the history: watches from an older version get 410."""
        self.compacted = self.revision
        self.history.clear()

    # --- what happens to connections ---------------------------------------------------------------------

    def break_watches(self) -> None:
        """The connections are cut."""
        for request in self._watching.values():
            if request.transport is not None:
                request.transport.abort()
        self.end_watches()

    def end_watches(self) -> None:
        """The server ends the watches, as it does after some minutes."""
        self._watching.clear()
        self._news.set()

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watching)

    def count(self, verb: str) -> int:
        """Requests of a verb so far: list, watch, get, or the HTTP method."""
        return sum(seen.verb == verb for seen in self.seen)

    # --- HTTP --------------------------------------------------------------------------------------------

    def _tell(self, kind: str, obj: Object) -> None:
        self.history.append((self.revision, kind, copy.deepcopy(obj)))
        self._news.set()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        verb = self._verb(request)
        self.seen.append(Seen(verb, request.path, dict(request.query)))
        waiting = self.watch_answers if verb == "watch" else self.answers
        return await (waiting.popleft() if waiting else self.answer)(request)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """What a server in good health answers."""
        if not self.served:
            return _json(status_object(404, "NotFound", "the server could not find it"), 404)
        verb = self._verb(request)
        namespace, name = self._place(request.path)
        if verb == "watch":
            return await self._watch(request, namespace)
        if verb == "list":
            return self._list(request, namespace)
        body = orjson.loads(await request.read() or b"{}")
        return self._one(request.method, namespace or "", name or body["metadata"]["name"], body)

    def _verb(self, request: web.BaseRequest) -> str:
        if request.method != "GET":
            return request.method
        if request.query.get("watch") == "true":
            return "watch"
        return "get" if self._place(request.path)[1] else "list"

    def _place(self, path: str) -> tuple[str | None, str | None]:
        """Namespace and name of a path such as /api/v1/namespaces/acme/configmaps/one."""
        parts = path.split("/")
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else None
        rest = parts[parts.index(self.resource.plural) + 1 :] if self.resource.plural in parts else []
        return namespace, rest[0] if rest else None

    def _one(self, method: str, namespace: str, name: str, body: Object) -> web.Response:
        found = self.objects.get((namespace, name))
        if method == "POST":
            if found:
                return _json(status_object(409, "AlreadyExists"), 409)
            return _json(self.put(name, namespace, **body), 201)
        if method == "PATCH":
            return _json(self.put(name, namespace, **body), 200 if found else 201)
        if found is None:
            return _json(status_object(404, "NotFound", f"{name} not found"), 404)
        if method == "PUT":
            expected = body["metadata"].get("resourceVersion", found["metadata"]["resourceVersion"])
            if expected != found["metadata"]["resourceVersion"]:
                return _json(status_object(409, "Conflict", "the object has been modified"), 409)
            return _json(self.put(name, namespace, **body))
        if method == "DELETE":
            return _json(self.remove(name, namespace))
        return _json(found)

    def _list(self, request: web.BaseRequest, namespace: str | None) -> web.Response:
        chosen = [obj for (where, _), obj in self.objects.items() if namespace in (None, where)]
        begin = int(request.query.get("continue", "0"))
        end = begin + int(request.query.get("limit", len(chosen)))
        metadata: Object = {"resourceVersion": str(self.revision)}
        if end < len(chosen):
            metadata["continue"] = str(end)
        # Items of a list have neither apiVersion nor kind.
        items = [{key: obj[key] for key in obj if key not in ("apiVersion", "kind")} for obj in chosen]
        return _json({"kind": "List", "metadata": metadata, "items": items[begin:end] or None})

    async def _watch(self, request: web.BaseRequest, namespace: str | None) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        at = int(request.query["resourceVersion"])
        self._watching[id(request)] = request
        try:
            while id(request) in self._watching:
                if at < self.compacted:
                    await response.write(line("ERROR", status_object(410, "Expired", "too old")))
                    return response
                news = [event for event in self.history if event[0] > at and not self.silent]
                for revision, kind, obj in news:
                    at = revision
                    if kind == "BOOKMARK" or namespace in (None, obj["metadata"]["namespace"]):
                        await response.write(line(kind, obj))
                if not news:
                    self._news.clear()
                    await self._news.wait()
        except ConnectionError:
            pass
        finally:
            self._watching.pop(id(request), None)
        return response


def _json(body: Object, status: int = 200, *, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(body), status=status, headers=headers, content_type="application/json"
    )
