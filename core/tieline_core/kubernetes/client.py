"""Calls to the API server: plain dictionaries in and out, one method a verb."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, Unpack

import orjson

from tieline_common.backoff import jitter
from tieline_core.kubernetes import errors, safe_json
from tieline_core.kubernetes.apply_body import apply_body
from tieline_core.kubernetes.kubeconfig import ClusterConnection, connection
from tieline_core.kubernetes.object_store import Objects, no_transform
from tieline_core.kubernetes.resources import PODS, Resource
from tieline_core.kubernetes.selectors import Selectors
from tieline_core.kubernetes.transport import Call, Transport
from tieline_core.kubernetes.watch_stream import WatchEvent, events
from tieline_core.objects import Object

__all__ = ["Applied", "Kube", "Object", "Objects", "WatchEvent"]

TIMEOUT = 10.0
PAGE = 500
# A watch ends by itself after WATCH_SECONDS. The server sends a bookmark about each minute, so WATCH_SILENCE
# seconds without a byte mean that the connection is dead, however alive it looks.
WATCH_SECONDS = 290
WATCH_SILENCE = 100.0
_METADATA_ONLY = "application/json;as={kind};g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Applied:
    """The result of a server-side apply.

    ``created`` is False too where the answer to the creating try was lost and the second try got through.
    """

    object: Object
    created: bool


class Kube:
    """A connection pool to one API server.

    >>> async with await Kube.connect() as kube:            # doctest: +SKIP
    ...     await kube.get(NAMESPACES, "default")
    """

    def __init__(
        self,
        reached_by: ClusterConnection,
        *,
        limit: int = 64,
        user_agent: str = "tieline",
        timeout: float = TIMEOUT,
        watch_silence: float = WATCH_SILENCE,
    ) -> None:
        """``limit`` bounds the connections of calls, beside which each watch has its own; times are in seconds."""
        self._transport = Transport(reached_by, limit=limit, user_agent=user_agent, timeout=timeout)
        self._watch_silence = watch_silence

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        limit: int = 64,
        user_agent: str = "tieline",
        timeout: float = TIMEOUT,  # noqa: ASYNC109  (of each call later, not of this one)
    ) -> Self:
        """By a kubeconfig (given, or from KUBECONFIG), or as the pod that this runs in.

        Raises NoClusterError when there is neither.
        """
        reached_by = await connection(kubeconfig=kubeconfig, context=context)
        return cls(reached_by, limit=limit, user_agent=user_agent, timeout=timeout)

    async def __aenter__(self) -> Self:
        self._transport.open()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the pool; calls that are under way fail with Unavailable."""
        await self._transport.close()

    @property
    def requests(self) -> Counter[tuple[str, str]]:
        """Requests so far, repeated ones too, by verb and resource (``("apply", "deployments")``)."""
        return self._transport.requests

    # --- reading ----------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """One object. Raises NotFound."""
        path = resource.path(namespace=namespace, name=name)
        return await self._json(Call(verb="get", resource=resource, method="GET", path=path, idempotent=True))

    async def list(
        self, resource: Resource, namespace: str | None = None, **selectors: Unpack[Selectors]
    ) -> Objects:
        """All objects, read in pages. Items carry apiVersion and kind, unlike the API server's."""
        items, _ = await self.list_with_version(resource, namespace, **selectors)
        return items

    async def list_with_version(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        metadata_only: bool = False,
        transform: Callable[[Object], Object] = no_transform,
        **selectors: Unpack[Selectors],
    ) -> tuple[Objects, str]:
        """All objects as they are now, and the resourceVersion that a watch goes on from.

        All pages are of one moment; where the server has forgotten that moment in between, everything is
        read again, in one piece. What ``transform`` takes from objects is in memory for one page only.
        """
        headers = _accept("PartialObjectMetadataList", metadata_only)
        selected = _selector_params(selectors)
        params = {"limit": str(PAGE), **selected}
        items: Objects = []
        while True:
            call = Call(
                verb="list",
                resource=resource,
                method="GET",
                path=resource.path(namespace=namespace),
                params=params,
                headers=headers,
                idempotent=True,
            )
            try:
                page = await self._json(call)
            except errors.Gone:
                if "continue" not in params:
                    raise
                items, params = [], selected
                continue
            for item in page.get("items") or ():
                item.update(apiVersion=resource.api_version, kind=resource.kind)
                items.append(transform(item))
            token = page["metadata"].get("continue")
            if not token:
                return items, page["metadata"]["resourceVersion"]
            params = {**params, "continue": token}

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        metadata_only: bool = False,
        **selectors: Unpack[Selectors],
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events after ``resource_version``, with bookmarks, until the server ends the watch (some minutes).

        Raises Gone when the version is too old, and Unavailable when the connection breaks or falls silent.
        Use ``contextlib.aclosing`` where the loop may be left early.
        """
        seconds = WATCH_SECONDS + round(jitter(20, 0.0, 1.0))
        call = Call(
            verb="watch",
            resource=resource,
            method="GET",
            path=resource.path(namespace=namespace),
            params={
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": resource_version,
                "timeoutSeconds": str(seconds),
                **_selector_params(selectors),
            },
            headers=_accept("PartialObjectMetadata", metadata_only),
        )
        async with self._transport.stream(call, silence=self._watch_silence) as stream:
            read = events(stream, resource, doing=call.doing, sensitive=call.sensitive)
            async with aclosing(read):
                async for event in read:
                    yield event

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
        call = Call(
            verb="get",
            resource=PODS,
            method="GET",
            path=path,
            params=params,
            headers={"Accept": "*/*"},
            idempotent=True,
        )
        _, body = await self._transport.send(call)
        return body.decode(errors="replace")

    # --- writing ----------------------------------------------------------------------------------------

    async def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        field_manager: str | None = None,
        field_validation: str = "Strict",
        subresource: str | None = None,
        name: str | None = None,
        metadata_only: bool = False,
    ) -> Object:
        """A new object. Raises AlreadyExists.

        ``name`` and ``subresource`` address a subresource that is created, such as a ServiceAccount's token. With
        ``metadata_only`` nothing else of the object comes back: megabytes need not be read again.
        """
        path = resource.path(
            namespace=obj.get("metadata", {}).get("namespace"), name=name, subresource=subresource
        )
        call = Call(
            verb="create",
            resource=resource,
            method="POST",
            path=path,
            params=_params(fieldManager=field_manager, fieldValidation=field_validation),
            data=orjson.dumps(obj),
            headers=_accept("PartialObjectMetadata", metadata_only),
            idempotent=resource.plural.endswith("reviews"),  # questions, which create nothing
        )
        return await self._json(call)

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
        call = Call(
            verb="apply",
            resource=resource,
            method="PATCH",
            path=resource.path(
                namespace=metadata.get("namespace"), name=metadata["name"], subresource=subresource
            ),
            params=_params(
                fieldManager=field_manager,
                force="true" if force else "false",
                fieldValidation=field_validation,
                dryRun="All" if dry_run else None,
            ),
            data=apply_body({"apiVersion": resource.api_version, "kind": resource.kind, **obj}),
            headers={"Content-Type": "application/apply-patch+yaml"},
            # With a version, the second try would conflict with what the first one has done.
            idempotent="resourceVersion" not in metadata,
        )
        status, body = await self._transport.send(call)
        return Applied(object=_loaded(body, call), created=status == 201)

    async def replace(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        field_manager: str | None = None,
        field_validation: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """PUT of a whole object; with its resourceVersion it raises Conflict when the object has changed."""
        metadata = obj["metadata"]
        path = resource.path(
            namespace=metadata.get("namespace"), name=metadata["name"], subresource=subresource
        )
        call = Call(
            verb="replace",
            resource=resource,
            method="PUT",
            path=path,
            params=_params(fieldManager=field_manager, fieldValidation=field_validation),
            data=orjson.dumps(obj),
        )
        return await self._json(call)

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
        field_validation: str | None = None,
    ) -> Object:
        """A merge patch (RFC 7386) or a JSON patch (RFC 6902)."""
        content_type = "application/merge-patch+json" if kind == "merge" else "application/json-patch+json"
        call = Call(
            verb="patch",
            resource=resource,
            method="PATCH",
            path=resource.path(namespace=namespace, name=name, subresource=subresource),
            params=_params(fieldManager=field_manager, fieldValidation=field_validation),
            data=orjson.dumps(patch),
            headers={"Content-Type": content_type},
        )
        return await self._json(call)

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

        Raises NotFound, and Conflict where it is another one. Only with ``uid`` is it sent again when an
        answer is lost: without, the second try could hit a successor.
        """
        preconditions = _params(uid=uid, resourceVersion=resource_version)
        options: Object = {"propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        call = Call(
            verb="delete",
            resource=resource,
            method="DELETE",
            path=resource.path(namespace=namespace, name=name),
            data=orjson.dumps(options),
            idempotent=uid is not None and resource_version is None,
        )
        return await self._json(call)

    async def _json(self, call: Call) -> Object:
        _, body = await self._transport.send(call)
        return _loaded(body, call)


def _loaded(body: bytes, call: Call) -> Object:
    # The parser's error holds the whole text, which may be a Secret: it goes no further.
    try:
        found = safe_json.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise errors.Unavailable(f"{call.doing}: the answer is no JSON object")
    return found


def _params(**params: str | None) -> dict[str, str]:
    return {name: value for name, value in params.items() if value is not None}


def _selector_params(selectors: Selectors) -> dict[str, str]:
    return _params(
        labelSelector=selectors.get("label_selector"), fieldSelector=selectors.get("field_selector")
    )


def _accept(kind: str, metadata_only: bool) -> dict[str, str]:
    return {"Accept": _METADATA_ONLY.format(kind=kind)} if metadata_only else {}
