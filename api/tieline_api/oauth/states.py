"""What is remembered of an authorisation until the user comes back: Secrets of a type of their own.

The state in the URL is ``<organisation>.<256 random bits>``. A Secret is named after its hash, so who may list
Secrets still cannot make a state up. It sits in the organisation's namespace, belongs to the System (and goes
with it), and is deleted by whoever takes it: the deletion is what makes it single-use, across replicas.
"""

import asyncio
import base64
import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from tieline_api.store.field_managers import MANAGER
from tieline_api.store.secrets import owner_reference
from tieline_core.ids import format_time, parse_id, parse_time
from tieline_core.kube import Conflict, KubeError, NotFound, Resource
from tieline_core.kube.resources import SECRETS

logger = logging.getLogger(__name__)

STATE_TYPE = "tieline.dev/oauth-state"
EXPIRES = "tieline.dev/expires-at"
SWEEP_SECONDS = 300.0
_RANDOM_BYTES = 32
_STATE = re.compile(r"(?P<organisation>[0-9A-Z]{26})\.[A-Za-z0-9_-]{43}")

Obj = Mapping[str, Any]


class Secrets(Protocol):
    """What is needed of the Kubernetes port."""

    async def create(
        self, resource: Resource, obj: Obj, *, field_manager: str | None = None
    ) -> dict[str, Any]: ...

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]: ...

    async def list(
        self, resource: Resource, namespace: str | None = None, *, field_selector: str | None = None
    ) -> list[dict[str, Any]]: ...

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Pending:
    """An authorisation that a user was sent away for."""

    organisation_id: str
    system_id: str
    credential_id: str
    client_id: str
    redirect_uri: str
    requested_by: str
    code_verifier: str = ""
    """The PKCE verifier, where there is one."""


def new_state(organisation_id: str) -> str:
    """An unguessable state that tells in which organisation to look for it."""
    return f"{organisation_id}.{secrets.token_urlsafe(_RANDOM_BYTES)}"


def new_verifier() -> str:
    """A PKCE verifier (RFC 7636, section 4.1)."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def organisation_of(state: str) -> str | None:
    """The organisation that a state names, or None when it cannot be ours."""
    found = _STATE.fullmatch(state)
    return parse_id(found["organisation"]) if found else None


class OAuthStates:
    """Remembers authorisations for a while."""

    def __init__(
        self, kube: Secrets, *, seconds: float, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._kube = kube
        self._seconds = seconds
        self._now = now

    async def remember(self, state: str, pending: Pending, *, system: Obj) -> None:
        """Keeps ``pending`` under ``state``; it goes when ``system`` goes."""
        expires = self._now() + timedelta(seconds=self._seconds)
        data = {name: value for name, value in vars(pending).items() if value}
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": _name(state),
                "namespace": system["metadata"]["namespace"],
                "labels": {"app.kubernetes.io/managed-by": "tieline"},
                "annotations": {EXPIRES: format_time(expires)},
                "ownerReferences": [owner_reference(system)],
            },
            "type": STATE_TYPE,
            "immutable": True,
            "data": {name: base64.b64encode(value.encode()).decode() for name, value in data.items()},
        }
        await self._kube.create(SECRETS, manifest, field_manager=MANAGER)

    async def take(self, state: str, *, namespace: str) -> Pending | None:
        """What was kept under ``state`` in the namespace of its organisation; None the second time.

        None also for a state that is none, has expired, or belongs to another organisation.
        """
        organisation = organisation_of(state)
        if organisation is None:
            return None
        try:
            found = await self._kube.get(SECRETS, _name(state), namespace)
            if found.get("type") != STATE_TYPE:
                return None
            await self._kube.delete(SECRETS, _name(state), namespace, uid=found["metadata"]["uid"])
        except (NotFound, Conflict):
            return None
        pending = _pending(found)
        if pending.organisation_id != organisation or self._expired(found):
            return None
        return pending

    async def sweep(self) -> int:
        """Deletes what has expired, in all organisations; returns how many."""
        found = await self._kube.list(SECRETS, field_selector=f"type={STATE_TYPE}")
        expired = [secret for secret in found if self._expired(secret)]
        for secret in expired:
            metadata = secret["metadata"]
            try:
                await self._kube.delete(SECRETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
            except (NotFound, Conflict):
                continue
        return len(expired)

    async def keep_sweeping(self) -> None:
        """Sweeps now and then, for ever. Replicas may do it at once: what is gone is gone."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS * (0.5 + secrets.randbelow(1000) / 1000))
            try:
                count = await self.sweep()
            except KubeError as error:
                logger.warning("Cannot delete expired authorisations, trying again later: %s", error.reason)
                continue
            if count:
                logger.info("Deleted expired authorisations", extra={"count": count})

    def _expired(self, secret: Obj) -> bool:
        text = (secret["metadata"].get("annotations") or {}).get(EXPIRES, "")
        try:
            return parse_time(text) <= self._now()
        except ValueError:
            return True


def _name(state: str) -> str:
    return f"oauth-state-{hashlib.sha256(state.encode()).hexdigest()[:40]}"


def _pending(secret: Obj) -> Pending:
    data = secret.get("data") or {}
    names = Pending.__dataclass_fields__
    values = {name: base64.b64decode(data[name]).decode() for name in names if name in data}
    return Pending(**{**dict.fromkeys(names, ""), **values})
