"""Objects in memory behind the calls of the Kubernetes port that keeping tokens needs."""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

from tieline_core.kubernetes.errors import AlreadyExists, Conflict, NotFound
from tieline_core.kubernetes.resources import SECRETS, Resource

Object = dict[str, Any]
Key = tuple[str, str, str]


class MemoryKube:
    """Keeps resourceVersions as the API server does; every call lets others go first."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.reads = 0
        self._version = 0

    def put(self, obj: Mapping[str, Any]) -> Object:
        """Stores an object whatever was there."""
        self._version += 1
        kept = copy.deepcopy(dict(obj))
        kept["metadata"]["resourceVersion"] = str(self._version)
        kept["metadata"].setdefault("uid", f"uid-{self._version}")
        kept["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        self.objects[self._key(kept)] = kept
        return copy.deepcopy(kept)

    def secrets(self, kind: str) -> list[Object]:
        """The Secrets of a type."""
        return [obj for key, obj in self.objects.items() if key[0] == "Secret" and obj.get("type") == kind]

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        self.reads += 1
        await asyncio.sleep(0)
        try:
            return copy.deepcopy(self.objects[resource.kind, namespace or "", name])
        except KeyError:
            raise NotFound("not there", status=404) from None

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        await asyncio.sleep(0)
        if self._key(obj) in self.objects:
            raise AlreadyExists("there already", status=409)
        return self.put(obj)

    async def replace(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        await asyncio.sleep(0)
        found = self.objects.get(self._key(obj))
        if found is None:
            raise NotFound("not there", status=404)
        if found["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            raise Conflict("changed", status=409)
        return self.put(obj)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, field_selector: str | None = None
    ) -> list[Object]:
        await asyncio.sleep(0)
        kind = (field_selector or "").removeprefix("type=")
        return copy.deepcopy(self.secrets(kind)) if resource is SECRETS else []

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> Any:
        await asyncio.sleep(0)
        if self.objects.pop((resource.kind, namespace or "", name), None) is None:
            raise NotFound("not there", status=404)

    @staticmethod
    def _key(obj: Mapping[str, Any]) -> Key:
        return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
