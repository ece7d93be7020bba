"""Reads what work environments that may sleep have: after each survey of the engine, and only what has changed."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nats.aio.client import Client
from nats.errors import NoRespondersError
from pydantic import ValidationError

from tieline_core.engine.state_reading import values_at
from tieline_core.engine.state_streams import StatePlace, schedules_stream
from tieline_core.engine.stored_messages import ReadLimits, read_subject
from tieline_core.engine.trust import AccountSigner
from tieline_core.identity.names import engine_credentials_name, workload_name
from tieline_core.kubernetes.resources import PROJECTS
from tieline_core.resources.parsed_cache import PROJECT
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import has_scaling
from tieline_operator.engine.account_turns import AccountTurns
from tieline_operator.engine.desired_streams import StreamKey, streams_of
from tieline_operator.engine.environment_work import (
    EnvironmentWork,
    earliest_timer,
    progress,
    registered_schedules,
)
from tieline_operator.engine.stream_readings import EnvironmentReading, Survey
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import SCHEDULE

_ORGANISATION_SECONDS = 15.0
_TOTAL_SECONDS = 45.0
_MAX_SCHEDULES = 200
_REGISTERED = "versions"
_WAITING = ReadLimits(messages=1000, bytes=4 << 20, batch=100)


@dataclass(frozen=True)
class _Revisions:
    """What the streams were like that a reading is of."""

    later: tuple[int, int] | None
    schedules: tuple[int, int] | None


class WorkReader:
    """The work of environments that may sleep, by namespace and the Secret with their credentials."""

    def __init__(
        self,
        listers: Listers,
        *,
        signer: Callable[[], AccountSigner | None],
        open_account: Callable[[AccountSigner], AbstractAsyncContextManager[Client]],
        changed: Callable[[StreamKey], None],
    ) -> None:
        """``signer`` is of the platform's account. ``changed`` is called for an environment with other work."""
        self._listers = listers
        self._signer = signer
        self._open = open_account
        self._changed = changed
        self._work: dict[StreamKey, tuple[EnvironmentWork, _Revisions]] = {}
        self._survey = Survey()
        self._surveyed = asyncio.Event()
        self._turns = AccountTurns(
            "The work of environments that may sleep cannot be read",
            signer=signer,
            open_account=open_account,
            seconds=_ORGANISATION_SECONDS,
            total_seconds=_TOTAL_SECONDS,
        )

    @property
    def stalled(self) -> int:
        """Organisations whose work cannot be read."""
        return self._turns.stalled

    def get(self, namespace: str, secret: str) -> EnvironmentWork | None:
        """The work of an environment; None while it is not known."""
        found = self._work.get(StreamKey(namespace, secret))
        return found[0] if found else None

    def surveyed(self, survey: Survey) -> None:
        """All streams were looked at: what has changed in them is read soon."""
        self._survey = survey
        self._surveyed.set()

    async def run(self) -> None:
        """Reads after each survey, for ever."""
        while True:
            await self._surveyed.wait()
            self._surveyed.clear()
            await self.read()

    async def read(self) -> None:
        """Reads the work of all environments that may sleep."""
        keys: dict[str, list[StreamKey]] = {}
        for key in _may_sleep(self._listers):
            keys.setdefault(key.namespace, []).append(key)
        survey = self._survey
        known = {key for found in keys.values() for key in found}
        self._work = {key: work for key, work in self._work.items() if key in known}
        signer = self._signer()
        if signer is None or not known:
            return
        await self._turns.take(
            keys, lambda client, namespace: self._read_all(client, signer, survey, keys[namespace])
        )

    async def _read_all(
        self, client: Client, signer: AccountSigner, survey: Survey, keys: Sequence[StreamKey]
    ) -> None:
        for key in keys:
            streams = streams_of(self._listers, key)
            reading = survey.environments.get(key)
            if streams is None or reading is None or survey.began is None:
                continue
            revisions = _Revisions(
                survey.revisions.get(streams.later),
                survey.revisions.get(schedules_stream(streams.organisation)),
            )
            before, seen = self._work.get(key, (EnvironmentWork(read_at=survey.began), None))
            work = replace(before, read_at=survey.began, queued=reading.queued)
            if seen is None or seen.later != revisions.later:
                work = replace(work, timer=await self._timer(signer, streams, reading))
            if seen is None or seen.schedules != revisions.schedules:
                work = await _with_schedules(client, streams, work)
            self._work[key] = work, revisions
            if seen is None or replace(work, read_at=before.read_at) != before:
                self._changed(key)

    async def _timer(
        self, signer: AccountSigner, streams: EventStreams, reading: EnvironmentReading
    ) -> datetime | None:
        """When what waits is due first; long past where more waits than is looked through."""
        if not reading.waiting:
            return None
        headers: list[Mapping[str, str]] = []
        size = 0
        async with self._open(signer.of_environment(streams)) as client:
            with suppress(NoRespondersError):
                async for page in read_subject(client, streams.later, ">", start=1, limits=_WAITING):
                    headers += [message.headers for message in page]
                    size += sum(len(message.data) for message in page)
        if len(headers) >= _WAITING.messages or size >= _WAITING.bytes:
            return datetime.fromtimestamp(0, UTC)
        return earliest_timer(headers, SCHEDULE)


async def _with_schedules(client: Client, streams: EventStreams, work: EnvironmentWork) -> EnvironmentWork:
    place = StatePlace.of_registered_schedules(streams.organisation, streams.environment)
    registered = await values_at(client, place, limit=1)
    records = await values_at(
        client, StatePlace.of_schedules(streams.organisation, streams.environment), limit=_MAX_SCHEDULES
    )
    settled, is_swept = progress(records)
    return replace(
        work,
        schedules=registered_schedules(registered.get(_REGISTERED)),
        settled=settled,
        is_swept=is_swept,
    )


def _may_sleep(listers: Listers) -> Iterator[StreamKey]:
    """The environments of all projects that sleep while they have no work."""
    for obj in listers[PROJECTS].list():
        if not has_scaling(obj):
            continue
        try:
            project = PROJECT.of(obj)
        except ValidationError:
            continue
        for item in project.spec.effective_environments():
            if project.spec.scaling_of(item).may_sleep:
                name = workload_name(project.name, item.name)
                yield StreamKey(project.namespace, engine_credentials_name(name))
