"""The operator's view of a cluster, from objects in memory, and the writes as they are carried out."""

from __future__ import annotations

import base64
import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from tests.unit.operator.objects import NAMESPACE, NOW
from tieline_core.identity.ids import format_time
from tieline_core.kubernetes import AlreadyExists, Applied, Conflict, Forbidden, Invalid, NotFound, Resource
from tieline_core.kubernetes import resources as r
from tieline_core.systems import filled
from tieline_operator.cache.indexers import CHILD_RESOURCES, INDEXERS, PRIMARY_RESOURCES

ALL = (
    *PRIMARY_RESOURCES,
    *CHILD_RESOURCES,
    r.JOBS,
    r.PODS,
    r.CONFIG_MAPS,
    r.SECRETS,
    r.NAMESPACES,
    r.ORGANISATION_RECORDS,
    r.API_ENDPOINTS,
)


class FakeLister:
    def __init__(
        self,
        resource: Resource,
        objects: dict[tuple[str, str], Any],
        behind: Mapping[tuple[str, str], Any],
    ) -> None:
        self._resource = resource
        self._stored = objects
        self._behind = behind

    @property
    def _objects(self) -> Mapping[tuple[str, str], Any]:
        if not self._behind:
            return self._stored
        return {key: obj for key, obj in {**self._stored, **self._behind}.items() if obj is not None}

    def get(self, namespace: str | None, name: str) -> Any:
        return self._seen(self._objects.get((namespace or "", name)))

    def _seen(self, obj: Any) -> Any:
        return filled(copy.deepcopy(obj)) if obj and self._resource == r.SYSTEMS else obj

    def list(self, namespace: str | None = None) -> list[Any]:
        return [obj for (where, _), obj in self._objects.items() if namespace in (None, where)]

    def by_index(self, index: str, key: str) -> list[Any]:
        indexer = INDEXERS[self._resource][index]
        return [obj for obj in self._objects.values() if key in indexer(obj)]


class FakeCluster:
    """Reads like ClusterCache, and takes the writes of an Applier like Kube."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.objects: dict[Resource, dict[tuple[str, str], Any]] = {resource: {} for resource in ALL}
        self.contents: dict[str, Any] = {}
        self.other_secrets: set[str] = set()
        self.late_secrets: dict[str, Any] = {}
        """Those of our type that the watch has not brought yet."""
        self.unread: set[str] = set()
        """Namespaces whose Secrets are not known yet."""
        self.ahead: dict[str, Any] = {}
        """Connections as Kubernetes has them where the cache is behind, by name."""
        self.behind: dict[Resource, dict[tuple[str, str], Any]] = {}
        """What the cache has where it is not what Kubernetes has; None for what it does not see."""
        self.changing: set[str] = set()
        """Names of objects that somebody has written since they were read."""
        self.requests: Counter[str] = Counter()
        self.reads = 0
        self.refused: dict[Resource, str] = {}
        """What is said to applies of these resources."""
        self.closed: set[str] = set()
        """Namespaces in which an admission policy allows status alone."""
        self.posted: list[Any] = []
        self.written: list[tuple[Resource, Any, Any]] = []
        """Resource, old and new state of each write, as a cache would tell."""
        self._version = 1
        by_kind = {resource.kind: resource for resource in ALL}
        for obj in objects:
            self.put(by_kind[obj["kind"]], obj)

    def __getitem__(self, resource: Resource) -> FakeLister:
        return FakeLister(resource, self.objects[resource], self.behind.get(resource, {}))

    def put(self, resource: Resource, *objects: Mapping[str, Any]) -> None:
        for obj in objects:
            metadata = obj["metadata"]
            self.objects[resource][metadata.get("namespace", ""), metadata["name"]] = copy.deepcopy(dict(obj))

    def put_config_map(self, name: str, data: Mapping[str, str]) -> None:
        """A ConfigMap of a user's: metadata in the cache, contents in the API server."""
        self._version += 1
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": name,
            "resourceVersion": str(self._version),
            "creationTimestamp": format_time(NOW),
        }
        self.put(r.CONFIG_MAPS, {"metadata": metadata})
        self.contents[name] = {"metadata": metadata, "data": dict(data)}

    def edited(self, resource: Resource, name: str, namespace: str = NAMESPACE) -> Any:
        """An object for a test to change in place. As in a cache, it is another one than that of before."""
        self.objects[resource][namespace, name] = copy.deepcopy(self.objects[resource][namespace, name])
        return self.objects[resource][namespace, name]

    def remove(self, resource: Resource, name: str, namespace: str = NAMESPACE) -> None:
        self.objects[resource].pop((namespace, name), None)
        if resource == r.CONFIG_MAPS:
            self.contents.pop(name, None)

    async def config_map(self, namespace: str, name: str) -> Any:
        self.reads += 1
        return self.contents.get(name)

    async def live_connection(self, namespace: str, name: str) -> Any:
        self.reads += 1
        return self.ahead.get(name) or self.objects[r.CONNECTIONS].get((namespace, name))

    def knows_secrets(self, namespace: str) -> bool:
        return namespace not in self.unread

    async def fetch_uncached_secret(self, namespace: str, name: str) -> bool:
        found = self.late_secrets.pop(name, None)
        if found:
            self.put(r.SECRETS, found)
        return found is not None

    async def has_secret_of_other_type(self, namespace: str, name: str) -> bool:
        return name in self.other_secrets

    def observe(self, resource: Resource, obj: Mapping[str, Any]) -> None:
        """What was written is in the store already."""

    def _tell(self, resource: Resource, old: Any, new: Any) -> None:
        self.written.append((resource, old, copy.deepcopy(new)))

    @property
    def writes(self) -> int:
        return sum(self.requests.values())

    # --- writes -----------------------------------------------------------------------------------------

    async def create(self, resource: Resource, obj: Mapping[str, Any], **_: Any) -> Any:
        if resource == r.EVENTS:
            self.posted.append(obj)
            return obj
        key = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if key in self.objects[resource]:
            raise AlreadyExists("taken")
        self.requests["create"] += 1
        stored = self._stored(obj)
        self.objects[resource][key] = stored
        self._tell(resource, None, stored)
        if resource == r.CONFIG_MAPS:
            self.contents[key[1]] = stored
        return stored

    async def apply(
        self, resource: Resource, obj: Mapping[str, Any], *, subresource: str | None = None, **_: Any
    ) -> Applied:
        key = obj["metadata"]["namespace"], obj["metadata"]["name"]
        there = self.objects[resource].get(key)
        if there is None and subresource:
            raise NotFound("gone")
        if there is None and "uid" in obj["metadata"]:
            raise Conflict(
                "uid mismatch: the provided object specified uid, and no existing object was found"
            )
        if there is not None:
            _check(obj["metadata"], there["metadata"])
        if resource in self.refused:
            raise Invalid(self.refused[resource])
        if not subresource and key[0] in self.closed:
            raise Forbidden(f"The namespace {key[0]} is no organisation, so Tieline writes nothing there")
        self.requests["apply"] += 1
        old = copy.deepcopy(there)
        # As a cache does: another state is another object.
        if there is None:
            stored = self._stored(obj)
        elif subresource == "status":
            stored = {**there, "status": copy.deepcopy(obj["status"])}
        else:
            stored = copy.deepcopy(there)
            _merge(stored, copy.deepcopy(dict(obj)))
            stored["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
        self.objects[resource][key] = stored
        self._tell(resource, old, stored)
        return Applied(object=stored, created=there is None)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Any:
        self.reads += 1
        found = self.objects[resource].get((namespace or "", name))
        if found is None:
            raise NotFound("gone")
        return found

    async def list(
        self, resource: Resource, namespace: str | None = None, *, field_selector: str | None = None
    ) -> list[Any]:
        self.reads += 1
        name = (field_selector or "").removeprefix("metadata.name=")
        return [obj for key, obj in self.objects[resource].items() if key == (namespace, name)]

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        **_: Any,
    ) -> None:
        if resource_version and name in self.changing:
            raise Conflict("changed")
        gone = self.objects[resource].pop((namespace or "", name), None)
        if gone is None:
            raise NotFound("gone")
        self._tell(resource, gone, None)
        self.requests["delete"] += 1

    def _stored(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        self._version += 1
        stored = copy.deepcopy(dict(obj))
        stored["metadata"].update(
            uid=f"uid-{self._version}",
            resourceVersion=str(self._version),
            generation=1,
            creationTimestamp=format_time(NOW + timedelta(seconds=self._version)),
        )
        if obj["kind"] == "Service":
            stored["spec"]["clusterIP"] = "10.96.0.77"
        return stored


def files_of(cluster: FakeCluster, names: Iterable[str]) -> dict[str, bytes]:
    """All that ConfigMaps of these names hold, by key."""
    return {
        key: base64.b64decode(value)
        for name in names
        for key, value in cluster.contents[name].get("binaryData", {}).items()
    }


def _check(applied: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    """What Kubernetes refuses before it applies anything."""
    if applied.get("uid", there.get("uid")) != there.get("uid"):
        raise Conflict("Precondition failed: UID in precondition: …, UID in object meta: …")
    if applied.get("resourceVersion", there["resourceVersion"]) != there["resourceVersion"]:
        raise Conflict("the object has been modified; please apply your changes to the latest version")
    owners = {one["uid"]: one for one in there.get("ownerReferences", [])}
    owners |= {one["uid"]: one for one in applied.get("ownerReferences", [])}
    if sum(bool(one.get("controller")) for one in owners.values()) > 1:
        raise Invalid("Only one reference can have Controller set to true")


def _merge(into: dict[str, Any], what: Mapping[str, Any]) -> None:
    for key, value in what.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
