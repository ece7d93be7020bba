"""Wires the parts that keep the event engine: its keys, the connection, and the streams."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress

from nats.aio.client import Client

from tieline_common.authorities import Trust
from tieline_common.cancellation import cancel_and_wait
from tieline_core.engine.package_streams import PackageEntry
from tieline_core.engine.trust import AccountSigner, EngineTrust
from tieline_core.identity.owner_references import controller_of
from tieline_core.kubernetes import Change, Kube
from tieline_core.kubernetes.resources import DEPLOYMENTS, ENGINE_SECRETS
from tieline_operator.apply.applier import Writer
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.config import Config
from tieline_operator.engine.connection import EngineConnection, account_client
from tieline_operator.engine.desired_streams import StreamKey, streams_of
from tieline_operator.engine.environment_work import EnvironmentWork
from tieline_operator.engine.key_manager import KeyManager
from tieline_operator.engine.metrics import EngineCollector
from tieline_operator.engine.package_index import PackageIndex
from tieline_operator.engine.queue_levels import QueueLevel, QueueLevels
from tieline_operator.engine.state_sweep import StateSweep
from tieline_operator.engine.stranded_events import OLD, StrandedEvents
from tieline_operator.engine.stream_readings import Survey, age
from tieline_operator.engine.stream_reconciler import StreamReconciler
from tieline_operator.engine.work_reader import WorkReader
from tieline_operator.metrics import Metrics
from tieline_protocol.event_streams import EventStreams

logger = logging.getLogger(__name__)

SURVEY_SECONDS = 60.0
"""Between two surveys that no scrape asks for."""
SCRAPE_SECONDS = 15.0
"""Between two surveys that scrapes ask for."""
_FIRST_KEYS_SECONDS = 15.0
_STOP_SECONDS = 2.0


class EngineService:
    """The event engine, as long as this replica leads. It never keeps reconciles waiting for the engine."""

    def __init__(
        self,
        config: Config,
        kube: Kube,
        writes: Writer,
        cache: ClusterCache,
        metrics: Metrics,
        keys_changed: Callable[[], None],
        level_changed: Callable[[str, str], None],
        packages_changed: Callable[[str], None],
        trust: Trust | None = None,
    ) -> None:
        """``keys_changed`` is called when credentials must be signed again.

        ``level_changed`` is called with namespace and name of a Project, an environment of which has another queue
        or other work.
        ``packages_changed`` is called with a namespace whose organisation has other packages.
        ``trust``: how the engine's servers are verified, where they speak TLS.
        """
        self._urls = config.engine_url
        self._trust = trust
        self._keys = KeyManager(
            kube,
            writes,
            namespace=config.lease_namespace,
            replicas=config.engine_replicas,
            own_servers=config.own_engine,
            changed=self._on_keys_changed,
        )
        self._keys_changed = keys_changed
        self._streams = StreamReconciler(
            cache,
            config.stream_limits,
            quotas=config.quotas,
            volume=config.engine_volume,
            system=lambda: self._connection.client,
            keys=lambda: None if self._keys.streams_kept else self._keys.keys,
            namespaces=config.namespaces,
            healthy=lambda: not cache.dead(config.watch_timeout),
        )
        self._connection = EngineConnection(
            config.engine_url,
            self._system_users,
            self._on_connected,
            client_connected=self._streams.client_connected,
            trust=trust,
        )
        self._sweep = StateSweep(
            cache,
            signer=lambda: self._keys.signer,
            open_account=self.open_account,
            architecture=config.packages_architecture,
            healthy=lambda: not cache.dead(config.watch_timeout),
        )
        self._stranded = StrandedEvents(
            self._with_old_events,
            keys=lambda: self._keys.keys,
            open_account=self.open_account,
        )
        self._packages = PackageIndex(
            cache,
            signer=lambda: self._keys.signer,
            open_account=self.open_account,
            require_streams=lambda namespace: self._streams.queue.add(StreamKey(namespace)),
            changed=packages_changed,
        )
        self._work = WorkReader(
            cache,
            signer=lambda: self._keys.signer,
            open_account=self.open_account,
            changed=self._work_changed,
        )
        self._cache = cache
        self._levels = QueueLevels()
        self._level_changed = level_changed
        self._survey_wanted = asyncio.Event()
        self._survey_urgent = asyncio.Event()
        self._surveyed = float("-inf")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        metrics.registry.register(EngineCollector(self, cache, names=metrics.object_names))
        metrics.watch_stream_readers(
            {
                "queues": lambda: self._stranded.stalled,
                "state": lambda: self._sweep.stalled,
                "packages": lambda: self._packages.stalled,
                "work": lambda: self._work.stalled,
            }
        )

    def open_account(self, signer: AccountSigner) -> AbstractAsyncContextManager[Client]:
        """See ``account_client``."""
        return account_client(self._urls, signer, self._trust)

    @property
    def signer(self) -> AccountSigner | None:
        """Signs the credentials of pods."""
        return self._keys.signer

    @property
    def trust(self) -> EngineTrust | None:
        """The engine's keys."""
        return self._keys.keys.trust if self._keys.keys else None

    def level(self, namespace: str, secret: str) -> QueueLevel | None:
        """How full an environment's queue is, by the Secret with its credentials; None while it is not known."""
        return self._levels.get(namespace, secret)

    def work(self, namespace: str, secret: str) -> EnvironmentWork | None:
        """The work of an environment that may sleep; None while it is not known."""
        return self._work.get(namespace, secret)

    def packages(self, namespace: str, *, again: bool = False) -> Mapping[str, PackageEntry] | None:
        """The packages of a namespace's organisation by key; None while they are not known."""
        return self._packages.get(namespace, again=again)

    @property
    def leads(self) -> bool:
        """Whether this replica keeps the engine."""
        return self._loop is not None

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._connection.client is not None

    @property
    def keys_usable(self) -> bool:
        """Whether the Secrets can be used."""
        return self._keys.keys is not None and not self._keys.problem

    @property
    def failed(self) -> int:
        """How many environments and organisations the engine refuses streams."""
        return self._streams.failed

    def survey(self) -> Survey:
        """The last survey, for a scrape, which comes from another thread. Asks for another one when it is old."""
        if self._loop is not None and time.monotonic() - self._surveyed > SCRAPE_SECONDS:
            self._loop.call_soon_threadsafe(self._survey_wanted.set)
        return self._streams.survey_result

    def follow(self) -> None:
        """Follows credentials and Deployments of environments. Call it before the caches start."""
        self._cache[ENGINE_SECRETS].subscribe(self._changed)
        self._cache[DEPLOYMENTS].subscribe(self._scaled)

    async def start(self) -> None:
        """Starts the work of the leader. Reads the keys first, so that no environment is deployed without them."""
        self._loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_KEYS_SECONDS):
                await self._keys.refresh()
        self._streams.queue.start()
        self._tasks = [
            asyncio.create_task(work, name=f"engine {name}")
            for name, work in (
                ("keys", self._keys.run()),
                ("connection", self._connection.run()),
                ("surveys", self._survey()),
                ("state sweep", self._sweep.run()),
                ("packages", self._packages.run()),
                ("stranded events", self._stranded.run()),
                ("work", self._work.run()),
            )
        ]

    async def stop(self) -> None:
        """Ends the work, and the connection."""
        self._loop = None
        # Before the connection: a request on a closed one waits for its time-out.
        await self._streams.queue.stop(_STOP_SECONDS)
        await cancel_and_wait(*self._tasks)

    def _changed(self, change: Change) -> None:
        if self._tasks:
            self._streams.changed(change)

    def _scaled(self, change: Change) -> None:
        if self._tasks:
            self._streams.scaled(change)

    def _with_old_events(self) -> list[EventStreams]:
        """Environments with a message that is older than a working queue has, by the last survey."""
        readings = self._streams.survey_result.environments.items()
        old = (key for key, reading in readings if age(reading.oldest) >= OLD.total_seconds())
        return [streams for key in old if (streams := streams_of(self._cache, key)) is not None]

    def _system_users(self) -> AccountSigner | None:
        return self.trust.system_users if self.trust else None

    def _on_keys_changed(self) -> None:
        self._keys_changed()
        self._on_connected()

    def _on_connected(self) -> None:
        """Has all accounts and streams looked at soon: the engine may have lost some, or may have others of ours."""
        self._survey_urgent.set()
        self._survey_wanted.set()

    def _publish_levels(self, now: float) -> None:
        for key in self._levels.update(self._streams.survey_result.environments, now):
            self._work_changed(key)

    def _work_changed(self, key: StreamKey) -> None:
        secret = self._cache[ENGINE_SECRETS].get(key.namespace, key.secret)
        owner = controller_of(secret) if secret else None
        if owner is not None:
            self._level_changed(key.namespace, owner["name"])

    async def _survey(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SURVEY_SECONDS):
                    await self._survey_wanted.wait()
            self._survey_wanted.clear()
            self._survey_urgent.clear()
            await self._streams.survey()
            self._surveyed = time.monotonic()
            self._publish_levels(self._surveyed)
            self._work.surveyed(self._streams.survey_result)
            with suppress(TimeoutError):
                async with asyncio.timeout(SCRAPE_SECONDS):
                    await self._survey_urgent.wait()
