"""Secrets that REST makes, of type ``tieline.dev/credential`` and owned by what they belong to, and those of tokens.

Values never change in place: each write makes a Secret of a new name, then the one apply of its owner switches
the reference, then the old Secret goes. So whoever reads sees all of the old or all of the new, wherever the
process dies in between; ``secret_gc`` deletes what is left over then.
"""

import asyncio
import base64
import hashlib
import logging
import secrets as random_secrets
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from tieline_api import errors
from tieline_api.cluster import revisions
from tieline_api.cluster.field_managers import MANAGER
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.credential_plans import PlannedSecret
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.identity.owner_references import is_owned, owner_reference
from tieline_core.kubernetes import Conflict, Invalid, Kube, KubeError, NotFound, SecretCache, Unavailable
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import SECRETS, Resource
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import AuthSchemeConfigDict

logger = logging.getLogger(__name__)


MADE_FOR = "tieline.dev/made-for"
"""Annotation of a Secret that REST has made: kind and name of the object that refers to it."""
_CHANNEL_TARGETS = ("email", "webhook", "slack")
_READABLE = 200
_HASH = 10
_EDITION_BYTES = 4


def new_edition() -> str:
    """Tells the Secrets of one write from those of all others."""
    return random_secrets.token_hex(_EDITION_BYTES)


def secret_name(kind: str, owner: str, part: str, edition: str) -> str:
    """The name of the Secret for a part of an object, as one write makes it."""
    digest = hashlib.sha256(f"{kind}/{owner}/{part}".encode()).hexdigest()[:_HASH]
    return f"{owner[:_READABLE].rstrip('-.')}-{digest}-{edition}"


def secret_references(obj: ObjectView) -> set[str]:
    """The names of all Secrets that a System, a Connection or a NotificationChannel refers to."""
    spec = obj.get("spec") or {}
    targets = [spec[name] for name in _CHANNEL_TARGETS if spec.get(name)]
    return {
        *_references(spec.get("authSchemeConfigs") or (), spec.get("credentials") or ()),
        *(target["secretRef"]["name"] for target in targets if target.get("secretRef")),
    }


class CredentialStore:
    """Writes and deletes the Secrets of systems, connections and notification channels."""

    def __init__(self, kube: Kube, cache: SecretCache) -> None:
        self._kube = kube
        self._cache = cache

    async def stage(
        self,
        namespace: str,
        made_for: str,
        secrets: Iterable[PlannedSecret],
        *,
        owner: ObjectView | None = None,
    ) -> None:
        """Writes ``secrets``, to which nothing refers yet; those with a base take over its other values.

        ``made_for`` is kind and name of the object that will refer to them, ``owner`` that object where it
        exists already: without it they have to be adopted later.
        """
        await asyncio.gather(*(self._stage(namespace, made_for, secret, owner) for secret in secrets))

    async def adopt(self, owner: ObjectView, secrets: Iterable[PlannedSecret]) -> None:
        """Makes ``secrets`` go when ``owner`` goes. What cannot be done now, the sweep does."""
        with suppress(KubeError):
            await asyncio.gather(*(self.adopt_one(owner, secret.name) for secret in secrets))

    async def adopt_one(self, owner: ObjectView, name: str) -> None:
        """Makes a Secret go when ``owner`` goes."""
        metadata = {"ownerReferences": [owner_reference(owner)]}
        adopted = await self._kube.patch(
            SECRETS, name, owner["metadata"]["namespace"], {"metadata": metadata}, field_manager=MANAGER
        )
        self._cache.observe(adopted)
        revisions.wrote(SECRETS.plural, adopted)

    async def annotate(self, secret: ObjectView, annotations: Mapping[str, str | None]) -> ObjectView:
        """Sets or removes annotations of a Secret; returns it as it is then, or as it was if it is gone or another."""
        metadata = secret["metadata"]
        change = {"metadata": {"uid": metadata["uid"], "annotations": annotations}}
        try:
            changed = await self._kube.patch(
                SECRETS, metadata["name"], metadata["namespace"], change, field_manager=MANAGER
            )
        except (NotFound, Conflict):
            return secret
        self._cache.observe(changed)
        revisions.wrote(SECRETS.plural, changed)
        return changed

    @asynccontextmanager
    async def discarding(self, namespace: str, secrets: Collection[PlannedSecret]) -> AsyncIterator[None]:
        """Deletes staged Secrets, those that are in ``secrets`` by then, where what they are for fails.

        After an error that leaves open whether the object was written they all stay. What cannot be deleted now is
        swept.
        """
        try:
            yield
        except (errors.ApiError, KubeError) as error:
            for secret in () if isinstance(error, Unavailable) else secrets:
                with suppress(KubeError):
                    await self._delete(namespace, secret.name)
            raise

    async def remove(self, owner: ObjectView, names: Iterable[str]) -> None:
        """Deletes the Secrets of ``owner`` among ``names``; those of others stay.

        The owner is as it shall be by now: what cannot be deleted now is swept.
        """
        namespace = owner["metadata"]["namespace"]
        for name in names:
            found = self._cache.get(namespace, name)
            if found is None or not is_owned(found, owner["metadata"]["uid"]):
                continue
            try:
                await self._delete(namespace, name, uid=found["metadata"]["uid"])
            except KubeError as error:
                logger.warning("Cannot delete a replaced Secret, the sweep will: %s", error.reason)

    async def remove_unchanged(self, secrets: Iterable[ObjectView]) -> None:
        """Deletes ``secrets`` as they are; one that was written since stays, as does what cannot be deleted now."""
        for secret in secrets:
            try:
                await self.delete_unchanged(secret)
            except KubeError as error:
                logger.info("A Secret is left to the operator's clean-up: %s", error.reason)

    async def delete_unchanged(self, secret: ObjectView) -> bool:
        """Deletes a Secret unless it was written since; False where it was, or is gone. Raises KubeError."""
        metadata = secret["metadata"]
        try:
            await self._kube.delete(
                SECRETS,
                metadata["name"],
                metadata["namespace"],
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
            )
        except (NotFound, Conflict):
            return False
        self._cache.forget(secret)
        revisions.deleted(SECRETS.plural, secret)
        return True

    async def _delete(self, namespace: str, name: str, *, uid: str | None = None) -> None:
        found = self._cache.get(namespace, name)
        with suppress(NotFound, Conflict):
            await self._kube.delete(
                SECRETS, name, namespace, uid=uid or (found["metadata"]["uid"] if found else None)
            )
        if found is not None:
            self._cache.forget(found)
            revisions.deleted(SECRETS.plural, found)

    async def _stage(
        self, namespace: str, made_for: str, secret: PlannedSecret, owner: ObjectView | None
    ) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in secret.values.items()}
        if secret.base is not None:
            data = {**await self._values(secret.base, namespace), **data}
        metadata: dict[str, Any] = {
            "name": secret.name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "tieline"},
            "annotations": {MADE_FOR: made_for},
        }
        if owner is not None:
            metadata["ownerReferences"] = [owner_reference(owner)]
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": CREDENTIAL_TYPE,
            "data": data,
        }
        try:
            applied = await self._kube.apply(SECRETS, manifest, field_manager=MANAGER)
        except Invalid as error:
            raise errors.conflict(
                f"The Secret {secret.name} cannot be written: {error.message[:512]}"
            ) from error
        self._cache.observe(applied.object)
        revisions.wrote(SECRETS.plural, applied.object)

    async def _values(self, name: str, namespace: str) -> dict[str, str]:
        found = await find(self._kube, SECRETS, name, namespace)
        return dict(found.get("data") or {}) if found and found.get("type") == CREDENTIAL_TYPE else {}


def made_for(kind: str, name: str) -> str:
    """The value of the annotation."""
    return f"{kind}/{name}"


def _references(schemes: Iterable[AuthSchemeConfigDict], credentials: Iterable[ObjectView]) -> Iterator[str]:
    inline = [item["authSchemeConfig"] for item in credentials if item.get("authSchemeConfig")]
    for scheme in (*schemes, *inline):
        name = auth_schemes.secret_name_of(scheme)
        if name:
            yield name
    for item in credentials:
        if item.get("secretRef"):
            yield item["secretRef"]["name"]


class CachingSecretClient:
    """The Kubernetes port, with what it answers put into the cache of Secrets: a GET shows it at once."""

    def __init__(self, kube: Kube, cache: SecretCache) -> None:
        self._kube = kube
        self._cache = cache

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        return self._seen(resource, await self._kube.get(resource, name, namespace))

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        return self._wrote(resource, await self._kube.create(resource, obj))

    async def replace(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        return self._wrote(resource, await self._kube.replace(resource, obj))

    def _wrote(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        if self._seen(resource, obj).get("type") == CREDENTIAL_TYPE:
            revisions.wrote(resource.plural, obj)
        return obj

    def _seen(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        if resource is SECRETS and obj.get("type") == CREDENTIAL_TYPE:
            self._cache.observe(obj)
        return obj
