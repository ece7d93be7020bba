"""Keeps the event engine's Secrets in the release's namespace: the keys, the servers' configuration, the API's access.

The trust Secret is created when it is missing, and never changed: an administrator may have filled it. The others
follow from it.
"""

import logging
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime

from tieline_core.engine.trust import AccountSigner, InvalidTrustError
from tieline_core.kubernetes import AlreadyExists, KubeError
from tieline_core.kubernetes.resources import SECRETS
from tieline_operator.apply.applier import Writer
from tieline_operator.apply.plan import MANAGER, Manifest
from tieline_operator.apply.secret_keeper import Reader, SecretKeeper
from tieline_operator.engine.keys import (
    API_SECRET,
    CONFIG_SECRET,
    TRUST_SECRET,
    EngineKeys,
    api_secret,
    config_secret,
    has_values,
    new_trust_secret,
    read_trust_secret,
    servers_of,
)
from tieline_operator.workload.network_policies import ENGINE

logger = logging.getLogger(__name__)


class OtherReplicasError(Exception):
    """The settings are for another number of servers than the engine has."""


class KeyManager(SecretKeeper):
    """The engine's keys, as long as they can be used."""

    def __init__(
        self,
        kube: Reader,
        writes: Writer,
        *,
        namespace: str,
        replicas: int,
        own_servers: bool = True,
        changed: Callable[[], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``changed`` is called when there are other keys than before. ``replicas`` are the engine's servers.

        ``own_servers``: whether they are the release's, with the configuration that is written here.
        """
        super().__init__(kube, writes, namespace=namespace, logger=logger)
        self._replicas = replicas
        self._own_servers = own_servers
        self._changed = changed
        self._now = now
        self.keys: EngineKeys | None = None
        """None until they are known, and while the Secret cannot be used."""
        self.streams_kept = False
        """Whether streams stay as they are, because the number of servers was changed without them."""

    @property
    def signer(self) -> AccountSigner | None:
        """Signs the users of the engine."""
        return self.keys.signer if self.keys else None

    async def refresh(self) -> bool:
        """Reads the keys, and writes what follows from them. False where that did not work."""
        try:
            await self._read_keys()
            await self._write_others()
        except InvalidTrustError as error:
            # No one can be signed with half of the keys; what was signed before stays valid.
            self._use(None)
            return self._failed(f"The Secret {TRUST_SECRET} cannot be used: {error}")
        except OtherReplicasError as error:
            return self._failed(str(error))
        except KubeError as error:
            return self._failed(f"The Secrets of the event engine cannot be kept: {error}")
        except Exception as error:
            # Its text may quote what was read.
            return self._failed(f"The Secrets of the event engine cannot be kept: {type(error).__name__}")
        return self._succeeded("The Secrets of the event engine are usable again")

    async def _read_keys(self) -> None:
        secret = await self._get(TRUST_SECRET)
        if secret is None:
            try:
                secret = await self._writes.create(
                    SECRETS, new_trust_secret(self._namespace), field_manager=MANAGER
                )
                logger.info("Made keys for the event engine", extra={"secret": TRUST_SECRET})
            except AlreadyExists:
                secret = await self._kube.get(SECRETS, TRUST_SECRET, self._namespace)
        self._use(read_trust_secret(secret))

    def _use(self, keys: EngineKeys | None) -> None:
        before, self.keys = self.keys, keys
        if _identity(before) != _identity(keys):
            self._changed()

    async def _write_others(self) -> None:
        if self.keys is None:
            return
        api = api_secret(self.keys, self._namespace, await self._get(API_SECRET), self._now())
        if api is not None:
            await self._apply(api)
        actual = await self._get(CONFIG_SECRET)
        servers = servers_of(actual) if actual is not None else None
        if self._own_servers and servers not in (None, self._replicas):
            # With the other configuration, servers would begin with empty volumes.
            self.streams_kept = True
            raise OtherReplicasError(
                f"TIELINE_ENGINE_REPLICAS is {self._replicas}, but the engine keeps its streams with {servers}, so "
                f"nothing is changed. Set it, and the replicas of the StatefulSet {ENGINE}, to {servers} again, or "
                "follow docs/operations.md, Change the number of engines"
            )
        self.streams_kept = False
        config = config_secret(self.keys, self._namespace, replicas=self._replicas)
        if not has_values(actual, config):
            await self._apply(config)

    async def _apply(self, secret: Manifest) -> None:
        await self._writes.apply(SECRETS, secret, field_manager=MANAGER, force=True)
        logger.info("Wrote a Secret of the event engine", extra={"secret": secret["metadata"]["name"]})


def _identity(keys: EngineKeys | None) -> tuple[object, ...] | None:
    if keys is None:
        return None
    trust = keys.trust
    public = (getattr(trust, one.name).public_key for one in fields(trust))
    return (*public, keys.release, keys.previous_signers)
