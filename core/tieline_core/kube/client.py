"""Calls to the API server."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import aiohttp
import orjson

from tieline_core.kube import errors
from tieline_core.kube.connection import Connection, connection
from tieline_core.kube.resources import PODS, SECRETS, Resource

logger = logging.getLogger(__name__)

Object = dict[str, Any]
Objects = list[Object]

TIMEOUT = 10.0
PAGE = 500
# A watch ends by itself after _WATCH_SECONDS; the server sends a bookmark about each minute, so a silence of
# _WATCH_SILENCE seconds means that the connection is dead.
_WATCH_SECONDS = 290
_WATCH_SILENCE = 100
_MAX_LINE = 32 * 1024 * 1024
_TRIES = 4
_LONGEST_WAIT = 5.0
_IDEMPOTENT = frozenset({"get", "list", "apply", "delete", "create-review"})
_METADATA_ONLY = "application/json;as={kind};g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Applied:
    """The result of a server-side apply."""

    object: Object
    created: bool


@dataclass(frozen=True)
class WatchEvent:
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


class Kube:
    """A connection pool to one API server.

    >>> async with await Kube.connect() as kube:            # doctest: +SKIP
    ...     await kube.get(NAMESPACES, "default")
    """

    def __init__(self, reached_by: Connection, *, limit: int = 64, user_agent: str = "tieline") -> None:
        self._connection = reached_by
        self._limit = limit
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self.requests: Counter[tuple[str, str]] = Counter()
        """Requests so far, by verb and resource (``("apply", "deployments")``)."""

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        limit: int = 64,
        user_agent: str = "tieline",
    ) -> Self:
        """By a kubeconfig (given, or from KUBECONFIG), or as the pod that this runs in.

        Raises NoClusterError when there is neither.
        """
        return cls(
            await connection(kubeconfig=kubeconfig, context=context), limit=limit, user_agent=user_agent
        )

    async def __aenter__(self) -> Self:
        self._opened()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the pool; calls that are under way fail."""
        if self._session is not None:
            await self._session.close()

    # --- calls on objects -------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """One object. Raises NotFound."""
        path = resource.path(namespace=namespace, name=name)
        return await self._json("get", resource, "GET", path)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Objects:
        """All objects, read in pages. Items carry apiVersion and kind, unlike the API server's."""
        items, _ = await self.list_with_version(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )
        return items

    async def list_with_version(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
    ) -> tuple[Objects, str]:
        """All objects, and the resourceVersion that a watch goes on from."""
        path = resource.path(namespace=namespace)
        params = {"limit": str(PAGE), **_selectors(label_selector, field_selector)}
        headers = {"Accept": _METADATA_ONLY.format(kind="PartialObjectMetadataList")} if metadata_only else {}
        items: Objects = []
        while True:
            try:
                page = await self._json("list", resource, "GET", path, params=params, headers=headers)
            except errors.Gone:
                if "continue" not in params:
                    raise
                # The pages took longer than the server keeps their version: all in one, as client-go does.
                items = []
                params = _selectors(label_selector, field_selector)
                continue
            for item in page.get("items") or ():
                item.update(apiVersion=resource.api_version, kind=resource.kind)
                items.append(item)
            token = page["metadata"].get("continue")
            if not token:
                return items, page["metadata"]["resourceVersion"]
            params = {**params, "continue": token}

    async def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        field_manager: str | None = None,
        field_validation: str = "Strict",
        subresource: str | None = None,
        name: str | None = None,
    ) -> Object:
        """A new object. Raises AlreadyExists.

        ``name`` and ``subresource`` address a subresource that is created, such as a ServiceAccount's token.
        """
        path = resource.path(
            namespace=obj.get("metadata", {}).get("namespace"), name=name, subresource=subresource
        )
        params = _params(fieldManager=field_manager, fieldValidation=field_validation)
        verb = "create-review" if resource.plural.endswith("reviews") else "create"
        return await self._json(verb, resource, "POST", path, params=params, body=obj)

    async def apply(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = False,
        subresource: str | None = None,
        field_validation: str = "Strict",
        dry_run: bool = False,
    ) -> Applied:
        """Server-side apply. Raises Conflict with ``conflicts`` when a field belongs to another manager.

        A ``metadata.resourceVersion`` in ``obj`` makes it fail with Conflict when the object has changed.
        """
        metadata = obj["metadata"]
        path = resource.path(
            namespace=metadata.get("namespace"), name=metadata["name"], subresource=subresource
        )
        params = _params(
            fieldManager=field_manager,
            force="true" if force else "false",
            fieldValidation=field_validation,
            dryRun="All" if dry_run else None,
        )
        status, answer = await self._call(
            "apply",
            resource,
            "PATCH",
            path,
            params=params,
            body={"apiVersion": resource.api_version, "kind": resource.kind, **obj},
            headers={"Content-Type": "application/apply-patch+yaml"},
        )
        return Applied(object=answer, created=status == 201)

    async def replace(
        self, resource: Resource, obj: Mapping[str, Any], *, field_manager: str | None = None
    ) -> Object:
        """PUT of a whole object; with its resourceVersion it raises Conflict when the object has changed."""
        metadata = obj["metadata"]
        path = resource.path(namespace=metadata.get("namespace"), name=metadata["name"])
        return await self._json(
            "replace", resource, "PUT", path, params=_params(fieldManager=field_manager), body=obj
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any] | Objects,
        *,
        kind: Literal["merge", "json"] = "merge",
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        """A merge patch (RFC 7386) or a JSON patch (RFC 6902)."""
        content_type = "application/merge-patch+json" if kind == "merge" else "application/json-patch+json"
        return await self._json(
            "patch",
            resource,
            "PATCH",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            params=_params(fieldManager=field_manager),
            body=patch,
            headers={"Content-Type": content_type},
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> Object:
        """Delete an object; only that very one where ``uid`` or ``resource_version`` is given.

        Raises NotFound, and Conflict where it is another one.
        """
        preconditions = _params(uid=uid, resourceVersion=resource_version)
        options: Object = {"propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        path = resource.path(namespace=namespace, name=name)
        return await self._json("delete", resource, "DELETE", path, body=options)

    async def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str | None = None,
        previous: bool = False,
        tail_lines: int | None = None,
        since_time: str | None = None,
        limit_bytes: int | None = 1024 * 1024,
        timestamps: bool = False,
    ) -> str:
        """A container's log, bounded by ``limit_bytes``."""
        params = _params(
            container=container,
            previous="true" if previous else None,
            tailLines=str(tail_lines) if tail_lines is not None else None,
            sinceTime=since_time,
            limitBytes=str(limit_bytes) if limit_bytes is not None else None,
            timestamps="true" if timestamps else None,
        )
        path = PODS.path(namespace=namespace, name=pod, subresource="log")
        _, answer = await self._call("get", PODS, "GET", path, params=params, raw=True)
        return str(answer)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events after ``resource_version``, with bookmarks, until the server ends the watch (some minutes).

        Raises Gone when the version is too old, and Unavailable when the connection breaks or falls silent.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(_WATCH_SECONDS + random.randint(0, 20)),  # noqa: S311  (spreads reconnects)
            **_selectors(label_selector, field_selector),
        }
        headers = await self._headers()
        if metadata_only:
            headers["Accept"] = _METADATA_ONLY.format(kind="PartialObjectMetadata")
        self.requests["watch", resource.plural] += 1
        doing = f"watch {resource.plural}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT, sock_read=_WATCH_SILENCE)
        try:
            async with self._opened().get(
                self._connection.url + resource.path(namespace=namespace),
                params=params,
                headers=headers,
                timeout=timeout,
                proxy=self._connection.proxy,
            ) as response:
                if response.status != 200:
                    raise await _refusal(response, doing=doing, sensitive=resource == SECRETS)
                async for line in _lines(response.content):
                    event = orjson.loads(line)
                    found = event["object"]
                    if event["type"] == "ERROR":
                        raise errors.from_status(
                            found.get("code", 500), found, doing=doing, sensitive=resource == SECRETS
                        )
                    found.update(apiVersion=resource.api_version, kind=resource.kind)
                    yield WatchEvent(type=event["type"], object=found)
        except orjson.JSONDecodeError as error:
            raise errors.Unavailable(f"{doing}: an event is no JSON") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.Unavailable(f"{doing}: {str(error) or type(error).__name__}") from error

    # --- transport --------------------------------------------------------------------------------------

    async def _json(self, verb: str, resource: Resource, method: str, path: str, **options: Any) -> Object:
        _, answer = await self._call(verb, resource, method, path, **options)
        result: Object = answer
        return result

    async def _call(
        self,
        verb: str,
        resource: Resource,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        raw: bool = False,
    ) -> tuple[int, Any]:
        """One call, tried again while that is safe and TIMEOUT seconds have not passed."""
        call = _Call(
            doing=f"{verb} {path}",
            method=method,
            path=path,
            params=params,
            data=orjson.dumps(body) if body is not None else None,
            headers=headers or {},
            raw=raw,
            sensitive=resource == SECRETS,
        )
        wait = 0.1
        async with _deadline(call.doing) as deadline:
            for attempt in range(1, _TRIES + 1):
                self.requests[verb, resource.plural] += 1
                try:
                    return await self._once(call)
                except (errors.TooManyRequests, errors.Unavailable) as error:
                    answered = error.status in (429, 503) and error.retry_after is not None
                    if attempt == _TRIES or not (answered or verb in _IDEMPOTENT):
                        raise
                    pause = min(error.retry_after or wait, _LONGEST_WAIT)
                    pause *= random.uniform(0.75, 1.25)  # noqa: S311  (jitter)
                    if pause >= deadline.left():
                        raise  # The answer says more than that time ran out.
                    await asyncio.sleep(pause)
                    wait *= 3
        raise AssertionError("the last try returns or raises")

    async def _once(self, call: "_Call") -> tuple[int, Any]:
        sent = {**await self._headers(), **call.headers}
        if call.data is not None:
            sent.setdefault("Content-Type", "application/json")
        doing = call.doing
        try:
            async with self._opened().request(
                call.method,
                self._connection.url + call.path,
                params=call.params,
                data=call.data,
                headers=sent,
                proxy=self._connection.proxy,
            ) as response:
                if response.status >= 300:
                    raise await _refusal(response, doing=doing, sensitive=call.sensitive)
                for warning in response.headers.getall("Warning", ()) if not call.sensitive else ():
                    logger.info("The API server warns about %s: %s", doing, warning)
                if call.raw:
                    return response.status, await response.text(errors="replace")
                return response.status, orjson.loads(await response.read())
        except orjson.JSONDecodeError as error:
            raise errors.Unavailable(f"{doing}: the answer is no JSON") from error
        except (aiohttp.ClientError, OSError) as error:
            raise errors.Unavailable(f"{doing}: {str(error) or type(error).__name__}") from error

    async def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": self._user_agent}
        authorization = await self._connection.authorization()
        if authorization:
            headers["Authorization"] = authorization
        return headers

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is not None and self._session.closed:
            raise errors.Unavailable("The connections to the API server were closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._connection.tls, limit=self._limit),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
            )
        return self._session


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One HTTP request, as it is sent each time it is tried."""

    doing: str
    method: str
    path: str
    params: Mapping[str, str] | None
    data: bytes | None
    headers: Mapping[str, str]
    raw: bool
    sensitive: bool


class _deadline:  # noqa: N801  (used like asyncio.timeout)
    """asyncio.timeout whose expiry is Unavailable."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._timeout = asyncio.timeout(TIMEOUT)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    def left(self) -> float:
        """Seconds until it expires."""
        return (self._timeout.when() or 0.0) - asyncio.get_running_loop().time()

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise errors.Unavailable(f"{self._doing}: no answer within {TIMEOUT:g} s") from None


async def _refusal(response: aiohttp.ClientResponse, *, doing: str, sensitive: bool) -> errors.KubeError:
    body: Any = None
    with suppress(orjson.JSONDecodeError, aiohttp.ClientError):
        body = orjson.loads(await response.read())
    return errors.from_status(
        response.status,
        body,
        doing=doing,
        sensitive=sensitive,
        retry_after=response.headers.get("Retry-After"),
    )


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: aiohttp's own readline refuses what exceeds its buffer."""
    pending = bytearray()
    async for chunk in stream.iter_any():
        pending += chunk
        if b"\n" not in chunk:
            if len(pending) > _MAX_LINE:
                raise errors.Unavailable(f"A watch event has more than {_MAX_LINE} bytes")
            continue
        *complete, rest = bytes(pending).split(b"\n")
        pending = bytearray(rest)
        for line in complete:
            if line:
                yield line


def _params(**params: str | None) -> dict[str, str]:
    return {name: value for name, value in params.items() if value is not None}


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    return _params(labelSelector=label_selector, fieldSelector=field_selector)
