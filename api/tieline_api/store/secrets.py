"""Secrets that REST makes: of type ``tieline.dev/credential``, owned by what they belong to."""

import asyncio
import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from tieline_api import errors
from tieline_api.conversion.connections import PlannedSecret
from tieline_api.store import revisions
from tieline_api.store.field_managers import MANAGER
from tieline_core.kube import Cache, Invalid, Kube, NotFound
from tieline_core.kube.resources import SECRETS
from tieline_core.names import CREDENTIAL_TYPE

Obj = Mapping[str, Any]

_READABLE = 200
_HASH = 10


def secret_name(kind: str, owner: str, part: str) -> str:
    """The name of the Secret for a part of an object: the same for the same."""
    digest = hashlib.sha256(f"{kind}/{owner}/{part}".encode()).hexdigest()[:_HASH]
    return f"{owner[:_READABLE].rstrip('-.')}-{digest}"


def owner_reference(owner: Obj) -> dict[str, Any]:
    """What makes a child go when ``owner`` goes."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


class CredentialStore:
    """Writes and deletes the Secrets of systems and connections."""

    def __init__(self, kube: Kube, cache: Cache) -> None:
        self._kube = kube
        self._cache = cache

    async def put(self, owner: Obj, secrets: Iterable[PlannedSecret]) -> None:
        """Writes ``secrets``; those with a base keep its other values."""
        await asyncio.gather(*(self._put(owner, secret) for secret in secrets))

    async def remove(self, owner: Obj, names: Iterable[str]) -> None:
        """Deletes the Secrets of ``owner`` among ``names``; those of others stay."""
        namespace, uid = owner["metadata"]["namespace"], owner["metadata"]["uid"]
        for name in names:
            found = self._cache.get(namespace, name)
            if found is None or not _is_owned(found, uid):
                continue
            try:
                await self._kube.delete(SECRETS, name, namespace, uid=found["metadata"]["uid"])
            except NotFound:
                continue
            self._cache.forget(found)
            revisions.deleted(SECRETS.plural, found)

    async def _put(self, owner: Obj, secret: PlannedSecret) -> None:
        metadata = owner["metadata"]
        data = {key: base64.b64encode(value).decode() for key, value in secret.values.items()}
        if secret.base is not None:
            data = {**await self._values(secret.base, metadata["namespace"]), **data}
        name = secret_name(owner["kind"], metadata["name"], secret.part)
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": {"app.kubernetes.io/managed-by": "tieline"},
                "ownerReferences": [owner_reference(owner)],
            },
            "type": CREDENTIAL_TYPE,
            "data": data,
        }
        try:
            applied = await self._kube.apply(SECRETS, manifest, field_manager=MANAGER)
        except Invalid as error:
            raise errors.conflict(
                f"The Secret {name} cannot be written: one of another type has its name, "
                "or it is immutable; delete that one"
            ) from error
        self._cache.observe(applied.object)
        revisions.wrote(SECRETS.plural, applied.object)

    async def _values(self, name: str, namespace: str) -> dict[str, str]:
        try:
            found = await self._kube.get(SECRETS, name, namespace)
        except NotFound:
            return {}
        return dict(found.get("data") or {}) if found.get("type") == CREDENTIAL_TYPE else {}


def _is_owned(obj: Obj, uid: str) -> bool:
    return any(reference["uid"] == uid for reference in obj["metadata"].get("ownerReferences") or ())
