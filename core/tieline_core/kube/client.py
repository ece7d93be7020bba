"""Calls to the API server."""

import random
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import orjson

from tieline_core.kube import errors
from tieline_core.kube.connection import Connection, connection
from tieline_core.kube.resources import PODS, SECRETS, Resource
from tieline_core.kube.transport import Transport

Object = dict[str, Any]
Objects = list[Object]

PAGE = 500
_WATCH_SECONDS = 290
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
        self._transport = Transport(reached_by, limit=limit, user_agent=user_agent)
        self.requests: Counter[tuple[str, str]] = self._transport.requests
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
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the pool; calls that are under way fail."""
        await self._transport.close()

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
        status, answer = await self._transport.call(
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
        _, answer = await self._transport.call("get", PODS, "GET", path, params=params, raw=True)
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
        headers = {"Accept": _METADATA_ONLY.format(kind="PartialObjectMetadata")} if metadata_only else {}
        doing = f"watch {resource.plural}"
        path = resource.path(namespace=namespace)
        lines = self._transport.lines(resource, path, doing=doing, params=params, headers=headers)
        async with aclosing(lines):
            async for line in lines:
                try:
                    event = orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise errors.Unavailable(f"{doing}: an event is no JSON") from error
                found = event["object"]
                if event["type"] == "ERROR":
                    code, sensitive = found.get("code", 500), resource == SECRETS
                    raise errors.from_status(code, found, doing=doing, sensitive=sensitive)
                found.update(apiVersion=resource.api_version, kind=resource.kind)
                yield WatchEvent(type=event["type"], object=found)

    async def _json(self, verb: str, resource: Resource, method: str, path: str, **options: Any) -> Object:
        _, answer = await self._transport.call(verb, resource, method, path, **options)
        result: Object = answer
        return result


def _params(**params: str | None) -> dict[str, str]:
    return {name: value for name, value in params.items() if value is not None}


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    return _params(labelSelector=label_selector, fieldSelector=field_selector)
