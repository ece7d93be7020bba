"""Keeps accounts and streams of the event engine: makes those that are missing, and deletes those of what is gone.

Each environment has an account. It has streams once they are needed (``stream_demand``).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime

from nats.aio.client import Client

from tieline_core.engine.accounts import (
    StreamFacts,
    account_claims_of,
    ensure_account,
    is_said,
    list_accounts,
    list_streams,
    push_account,
)
from tieline_core.engine.audit_streams import audit_streams, ensure_audit
from tieline_core.engine.management import managed_account
from tieline_core.engine.package_streams import ensure_packages, package_streams
from tieline_core.engine.state_streams import ensure_state, state_streams
from tieline_core.engine.streams import (
    LIMITS_STREAM,
    ForeignStreamError,
    StreamLimits,
    StreamOwner,
    ensure_environment,
    ensure_history,
    fingerprint,
    history_streams,
)
from tieline_core.engine.trust import backup_until
from tieline_core.identity.names import engine_credentials_name
from tieline_core.kubernetes import Change
from tieline_core.resources.quotas import NO_QUOTAS, Quotas
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import namespace_of
from tieline_operator.cache.organisations import organisation_of
from tieline_operator.engine.connection_bounds import ConnectionBounds
from tieline_operator.engine.desired_streams import (
    StreamKey,
    environment_by_name,
    environments,
    needed_stream_names,
    needs_packages,
    stream_keys,
    streams_of,
)
from tieline_operator.engine.keys import EngineKeys
from tieline_operator.engine.stream_collector import StreamCollector
from tieline_operator.engine.stream_demand import StreamDemand
from tieline_operator.engine.stream_readings import NOTHING, EnvironmentReading, Survey, reading_of
from tieline_operator.engine.stream_sizes import StreamSizes
from tieline_operator.queues.clock import Clock
from tieline_operator.queues.workqueue import WorkQueue

logger = logging.getLogger(__name__)

WORKERS = 8
_ENSURE_SECONDS = 30.0
_REQUEST_SECONDS = 10.0


class StreamsRefusedError(Exception):
    """Streams are not made, because a quota or the volume has no room for them."""


class StreamReconciler:
    """Reconciles accounts and streams while there is a connection. A survey finds what is missing or different."""

    def __init__(
        self,
        listers: Listers,
        limits: StreamLimits,
        *,
        quotas: Quotas = NO_QUOTAS,
        volume: int = 0,
        system: Callable[[], Client | None],
        keys: Callable[[], EngineKeys | None],
        namespaces: Sequence[str] = (),
        healthy: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.monotonic,
        clock: Clock | None = None,
    ) -> None:
        """``quotas`` are those of organisations that have no others, and ``volume`` the size of the engine's volume.

        ``system`` is a client of the servers' system account. ``keys`` sign accounts, and mark streams as ours.

        ``namespaces`` are those that are served: none means all. ``healthy``: whether the caches follow the cluster;
        while they do not, nothing is deleted.
        """
        self._listers = listers
        self._system = system
        self._keys = keys
        self._healthy = healthy
        self.queue: WorkQueue[StreamKey] = WorkQueue(self._reconcile, workers=WORKERS, clock=clock)
        self._demand = StreamDemand(listers)
        self._sizes = StreamSizes(listers, limits, quotas=quotas, volume=volume, demand=self._demand)
        self._bounds = ConnectionBounds(listers)
        self._collector = StreamCollector(listers, limits, namespaces=namespaces, now=now)
        self._pushed: dict[StreamKey, str] = {}
        """The fingerprints with which the servers were found to have environments' accounts, or were given them."""
        self._surveyed: Client | None = None
        self._failures: dict[StreamKey, str] = {}
        self._survey_problem = ""
        self.survey_result = Survey()

    @property
    def failed(self) -> int:
        """How many environments and organisations the engine refuses streams."""
        return len(self._failures)

    def changed(self, change: Change) -> None:
        """The credentials of an environment were written or deleted."""
        if change.new is not None:
            namespace = namespace_of(change.new)
            self.queue.add(StreamKey(namespace))
            self.queue.add(StreamKey(namespace, change.new["metadata"]["name"]))

    def scaled(self, change: Change) -> None:
        """The Deployment of an environment was written or deleted: its new pods need room to connect at once."""
        if change.new is not None:
            key = StreamKey(namespace_of(change.new), engine_credentials_name(change.new["metadata"]["name"]))
            if self._bounds.is_too_low(key):
                self.queue.add(key)

    def client_connected(self, account: str, client: str) -> None:
        """A client has connected to an account of the engine: a public key, and the client's name."""
        keys = self._keys()
        key = self._demand.client_connected(keys.signer, account, client) if keys is not None else None
        if key is not None:
            self.queue.add(key)

    # --- making -----------------------------------------------------------------------------------------

    async def _reconcile(self, key: StreamKey) -> None:
        system, keys = self._system(), self._keys()
        if system is None or keys is None:
            return  # the survey after the next connection finds it
        try:
            async with asyncio.timeout(_ENSURE_SECONDS):
                await self._ensure(system, keys, key)
        except Exception as error:
            self._log_failure(key, error)
            raise
        if self._failures.pop(key, None):
            logger.info("The event engine has the streams again", extra=_extra(key))

    async def _ensure(self, system: Client, keys: EngineKeys, key: StreamKey) -> None:
        organisation = organisation_of(self._listers, key.namespace)
        if organisation is None:
            return
        owner = StreamOwner(release=keys.release, organisation=organisation, namespace=key.namespace)
        self._sizes.plan(key)
        limits, refusal = self._sizes.limits_of(key), self._sizes.refusals.get(key)
        if not key.secret:
            if refusal:
                raise StreamsRefusedError(refusal.message)
            settings = _organisation_settings(organisation, limits)
            jetstream = managed_account(system, keys.signer.account, seconds=_REQUEST_SECONDS)
            await ensure_history(jetstream, organisation, limits, owner, settings=settings)
            await ensure_state(jetstream, organisation, limits, owner, settings=settings)
            await ensure_audit(jetstream, organisation, limits, owner, settings=settings)
            if needs_packages(self._listers, key.namespace):
                await ensure_packages(jetstream, organisation, limits, owner, settings=settings)
        elif (streams := streams_of(self._listers, key)) is not None:
            account = keys.signer.of_environment(streams)
            connections = self._bounds.of(key)
            jwt = keys.environment_jwt(
                streams, limits, key.namespace, datetime.now(UTC), connections=connections
            )
            claims = await account_claims_of(system, account.account)
            if claims is not None and keys.owned_environment(account.account, claims) is None:
                raise ForeignStreamError("The environment's account belongs to another installation")
            if not is_said(claims, jwt):
                await push_account(system, jwt)
            settings = keys.environment_settings(streams, limits)
            self._pushed[key] = settings
            self._bounds.reported(key, connections)
            if streams not in self._demand:
                return
            if refusal:
                raise StreamsRefusedError(refusal.message)
            jetstream = managed_account(system, account.account, seconds=_REQUEST_SECONDS)
            await ensure_environment(jetstream, streams, limits, owner, settings=settings)

    def _log_failure(self, key: StreamKey, error: Exception) -> None:
        problem = str(error) or type(error).__name__
        # A full engine refuses all environments, each time: one line each is enough.
        level = logging.DEBUG if self._failures.get(key) == problem else logging.WARNING
        self._failures[key] = problem
        logger.log(level, "The event engine refuses streams, trying again: %s", problem, extra=_extra(key))

    # --- surveying --------------------------------------------------------------------------------------

    async def survey(self) -> None:
        """Lists all streams: repairs what is missing, deletes what is gone, and remembers what is in them."""
        system, keys = self._system(), self._keys()
        if system is None or keys is None:
            return
        began = datetime.now(UTC)
        try:
            await ensure_shared_accounts(system, keys, began)
            if system is not self._surveyed:
                # Another engine, or one that has lost accounts or has old ones.
                self._pushed.clear()
                self._surveyed = system
            found = await list_streams(system)
            accounts = frozenset(await list_accounts(system))
            ours = {one.name: one for one in found if _is_ours(one, keys)}
            await self._demand.survey(system, keys.signer, ours)
            self._sizes.surveyed(found, ours)
            missing = self._repair(keys, ours, accounts)
            self._forget_gone()
        except Exception as error:
            problem = str(error) or type(error).__name__
            level = logging.DEBUG if problem == self._survey_problem else logging.WARNING
            logger.log(level, "The streams of the event engine cannot be listed: %s", problem)
            self._survey_problem = problem
            return
        self._survey_problem = ""
        self.survey_result = Survey(
            began=began,
            environments=self._readings(ours),
            revisions={name: one.revision for name, one in ours.items()},
            streams=len(ours),
            missing=missing,
            foreign=sum(not _is_known(one, keys) for one in found),
            reserved=self._sizes.reserved,
        )
        try:
            if self._healthy():
                await self._collector.collect(system, keys, ours, accounts)
        except Exception as error:
            logger.warning(
                "The accounts of the event engine cannot be listed: %s", str(error) or type(error).__name__
            )

    def _repair(self, keys: EngineKeys, ours: Mapping[str, StreamFacts], accounts: Set[str]) -> int:
        """Has made what is missing or different. How many streams are missing."""
        missing = 0
        for key in stream_keys(self._listers):
            organisation = organisation_of(self._listers, key.namespace)
            if organisation is None:
                continue
            streams = streams_of(self._listers, key) if key.secret else None
            if streams is not None:
                settings = keys.environment_settings(streams, self._sizes.limits_of(key))
                account = keys.signer.of_environment(streams).account
                names: Sequence[str] = streams.names if streams in self._demand else ()
                right = account in accounts and (bool(names) or self._pushed.get(key) == settings)
                right = right and self._bounds.is_reported(key)
                consumed: Sequence[str] = (streams.queue, streams.later) if names else ()
            elif key.secret:
                continue
            else:
                names = needed_stream_names(self._listers, key.namespace, organisation)
                consumed, right = (), True
                settings = _organisation_settings(organisation, self._sizes.limits_of(key))
            lost = [name for name in names if name not in ours]
            missing += len(lost)
            if (
                lost
                or not right
                or any(ours[name].settings != settings for name in names)
                or any(ours[name].consumers == 0 for name in consumed)
            ):
                self.queue.add(key)
        return missing

    def _forget_gone(self) -> None:
        present = set(stream_keys(self._listers))
        self._bounds.forget_all_but(present)
        for known in (self._failures, self._pushed):
            for key in known.keys() - present:
                del known[key]

    def _readings(self, ours: Mapping[str, StreamFacts]) -> dict[StreamKey, EnvironmentReading]:
        found = {
            key: reading_of(streams, ours) if streams in self._demand else NOTHING
            for key, streams in environments(self._listers).items()
        }
        refused = {
            key: replace(NOTHING, refusal=refusal)
            for key, refusal in self._sizes.refusals.items()
            if key.secret
        }
        return {key: reading for key, reading in found.items() if reading is not None} | refused


async def ensure_shared_accounts(system: Client, keys: EngineKeys, now: datetime) -> None:
    """Has the servers have the platform's account, and the system account without the access of a backup that ended."""
    await ensure_account(system, keys.signer.account, keys.platform_jwt(now))
    account = keys.trust.system.public_key
    until = backup_until(await account_claims_of(system, account) or {})
    if until is None or until <= now:
        await ensure_account(system, account, keys.trust.system_jwt(now))


def _is_ours(stream: StreamFacts, keys: EngineKeys) -> bool:
    """Whether a stream is of this installation, and in the account in which it belongs."""
    if stream.owner is None or stream.owner.release != keys.release:
        return False
    streams = environment_by_name(stream.name)
    signer = keys.signer.of_environment(streams) if streams else keys.signer
    return stream.account == signer.account


def _is_known(stream: StreamFacts, keys: EngineKeys) -> bool:
    """Whether a stream is of this installation, also where the API has made it for itself."""
    is_of_limits = stream.name == LIMITS_STREAM and stream.account == keys.signer.account
    return is_of_limits or _is_ours(stream, keys)


def _organisation_settings(organisation: str, limits: StreamLimits) -> str:
    configs = (
        *history_streams(organisation, limits),
        *state_streams(organisation, limits),
        *audit_streams(organisation, limits),
        *package_streams(organisation, limits),
    )
    return fingerprint(configs, limits)


def _extra(key: StreamKey) -> dict[str, str]:
    return {"namespace": key.namespace, "secret": key.secret}
