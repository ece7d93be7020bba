"""Deletes accounts and streams of the event engine whose environments and organisations are gone."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from tieline_core.engine.accounts import StreamFacts, account_claims_of, delete_accounts, push_account
from tieline_core.engine.management import managed_account
from tieline_core.engine.streams import StreamLimits
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.engine.desired_streams import KnownStreams, environment_by_name, environments
from tieline_operator.engine.keys import EngineKeys
from tieline_protocol.event_streams import EventStreams

logger = logging.getLogger(__name__)

GONE_SECONDS = 3600.0
"""How long an environment must have been gone until its streams are deleted."""
_REQUEST_SECONDS = 10.0
_JUST_SIGNED = timedelta(minutes=1)
"""Users that were signed in this time stay valid where all earlier ones are revoked: the operator is one of them."""


class StreamCollector:
    """Collects what is gone, and remembers since when."""

    def __init__(
        self,
        listers: Listers,
        limits: StreamLimits,
        *,
        namespaces: Sequence[str] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``namespaces`` are those that are served: none means all."""
        self._listers = listers
        self._limits = limits
        self._namespaces = frozenset(namespaces)
        self._now = now
        self._gone: dict[str, float] = {}
        """When a stream or an account was first seen without an environment, by name."""

    async def collect(
        self, system: Client, keys: EngineKeys, ours: Mapping[str, StreamFacts], listed: Set[str]
    ) -> None:
        """Deletes what was first seen without an environment or organisation an hour ago.

        ``ours`` are all streams of this installation, and ``listed`` all accounts of the engine.
        """
        known, now = KnownStreams(self._listers), self._now()
        histories = {
            name
            for name, stream in ours.items()
            if stream.owner
            and environment_by_name(name) is None
            and self._serves(stream.owner.namespace)
            and stream not in known
        }
        accounts = {
            account: (streams, namespace)
            for account, (streams, namespace) in (await self._unwanted_accounts(system, keys, listed)).items()
            if self._serves(namespace) and not known.has_environment(streams)
        }
        gone = {*histories, *accounts}
        self._gone = {name: self._gone.get(name, now) for name in gone}
        due = sorted(name for name, since in self._gone.items() if now - since >= GONE_SECONDS)
        for name in due:
            try:
                if name in accounts:
                    await self._delete_account(system, keys, name, *accounts[name])
                else:
                    await _delete_streams(system, keys.signer.account, [name])
            except Exception as error:
                logger.warning(
                    "What a deleted environment has left in the event engine cannot be deleted, trying again: %s",
                    str(error) or type(error).__name__,
                    extra={"left": name},
                )

    def _serves(self, namespace: str) -> bool:
        return not self._namespaces or namespace in self._namespaces

    async def _unwanted_accounts(
        self, system: Client, keys: EngineKeys, listed: Set[str]
    ) -> Mapping[str, tuple[EventStreams, str]]:
        """Accounts of this installation whose environments have no credentials, with environment and namespace."""
        wanted = {keys.signer.of_environment(one).account for one in environments(self._listers).values()}
        wanted |= {keys.signer.account, keys.trust.system.public_key}
        found = {}
        for account in sorted(listed - wanted):
            claims = await account_claims_of(system, account)
            if claims is not None and (owned := keys.owned_environment(account, claims)):
                found[account] = owned
        return found

    async def _delete_account(
        self, system: Client, keys: EngineKeys, account: str, streams: EventStreams, namespace: str
    ) -> None:
        """Cuts off whoever is still connected, and deletes all that is in the account, and the account."""
        now = datetime.now(UTC)
        revoked = keys.environment_jwt(
            streams, self._limits, namespace, now, revoked_until=now - _JUST_SIGNED
        )
        await push_account(system, revoked)
        await _delete_streams(system, account, None)
        await delete_accounts(system, keys.trust.deletion_jwt([account], at=datetime.now(UTC)))


async def _delete_streams(system: Client, account: str, names: Sequence[str] | None) -> None:
    """Deletes streams of an account; None: all of them."""
    jetstream = managed_account(system, account, seconds=_REQUEST_SECONDS)
    if names is None:
        names = [str(one.config.name) for one in await jetstream.streams_info()]
    for name in names:
        try:
            await jetstream.delete_stream(name)
        except NotFoundError:
            continue
        logger.info("Deleted a stream whose environment is gone", extra={"stream": name})
