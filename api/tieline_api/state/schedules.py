"""What pods tell of schedules: which ones their code has, and how far each is."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import orjson
from cachetools import TTLCache

from tieline_api import errors
from tieline_api.engine.requests import EngineRequests
from tieline_api.errors import ApiError
from tieline_api.state.documents import Documents
from tieline_api.state.state_scopes import registered_schedules_scope, schedules_scope
from tieline_common.single_flight import SingleFlight
from tieline_core.engine.publisher import TASK_PATTERN
from tieline_core.engine.state_streams import (
    environment_of_subject,
    registered_schedules,
    schedule_of_subject,
    schedule_records,
    schedules_stream,
)
from tieline_core.identity.ids import parse_time
from tieline_protocol.cron import CronError, parse_cron

MAX_SCHEDULES = 50
MAX_RECORDS = 20_000
"""Schedules of an organisation that are looked at to find late ones."""
MAX_ENVIRONMENTS = 5_000
"""Environments of an organisation whose schedules are listed."""
_KEPT_SECONDS = 10.0
_ORGANISATIONS = 200
_SLICE = 500
_KEY = "versions"
_NAME = re.compile(TASK_PATTERN)
_MAX_TEXT = 256
_TRIES = 5


@dataclass(frozen=True, kw_only=True)
class RegisteredSchedule:
    """A schedule as code declares it."""

    name: str
    cron: str
    timezone: str
    activations: str
    """``static``, or ``users``."""


@dataclass(frozen=True, kw_only=True)
class ScheduleProgress:
    """How far a schedule is."""

    settled: datetime | None = None
    """What was due until then is done, or will never be."""
    ran: datetime | None = None
    """The last time for which all runs have ended."""
    under_way: datetime | None = None
    """When the runs that are under way were due, or asked for."""
    held: bool = False
    """Whether a pod works on these."""
    times: str = ""
    """The cron expression and the zone that ``settled`` is about."""
    claimed: frozenset[str] = frozenset()
    """Ids of requests to run that pods have begun with."""


class ScheduleStore:
    """The documents of one environment's schedules."""

    def __init__(self, documents: Documents, organisation: str, environment: str) -> None:
        """``organisation`` and ``environment`` are ids."""
        self._documents = documents
        self._records = schedules_scope(organisation, environment)
        self._registered = registered_schedules_scope(organisation, environment).document(_KEY)

    async def registered(self, versions: Sequence[str]) -> list[RegisteredSchedule]:
        """The schedules of the first of ``versions`` (names of ProjectVersions) of which pods have registered any."""
        found = await self._documents.get(self._registered)
        registered = found.value if found and isinstance(found.value, dict) else {}
        for version in versions:
            if version in registered:
                return _readable(registered[version])
        return []

    async def register(
        self,
        version: str,
        schedules: Sequence[RegisteredSchedule],
        *,
        kept: Collection[str],
        even_none: bool = False,
    ) -> None:
        """Keep what a version's code has, beside what those of the versions ``kept`` have. Raises ApiError.

        Where no version has any, that is kept only with ``even_none``.
        """
        value = [_to_json(one) for one in schedules]
        for number in range(1, _TRIES + 1):
            found = await self._documents.get(self._registered)
            registered = found.value if found and isinstance(found.value, dict) else {}
            changed = {name: there for name, there in registered.items() if name in kept} | {version: value}
            if changed == registered or not (registered or value or even_none):
                return
            try:
                expected = found.version if found else None
                await self._documents.put(self._registered, changed, anyway=False, expected=expected)
            except ApiError as error:
                if error.status != 409 or number == _TRIES:
                    raise
            else:
                return

    async def progress(self, schedule: str) -> ScheduleProgress:
        """How far a schedule is, by what pods have written down."""
        if not _NAME.fullmatch(schedule):
            return ScheduleProgress()
        found = await self._documents.get(self._records.document(schedule))
        return _progress(found.value) if found else ScheduleProgress()


ProgressByEnvironment = Mapping[str, Mapping[str, ScheduleProgress]]
"""How far schedules are, by the id of their environment and their name."""
RegisteredByEnvironment = Mapping[str, Mapping[str, Sequence[RegisteredSchedule]]]
"""Which schedules code has, by the id of its environment and the name of its version."""
_Read = TypeVar("_Read")


class _Kept(Generic[_Read]):
    """What was read of organisations, each at most once in a few seconds however many ask."""

    def __init__(self, read: Callable[[str], Awaitable[_Read]]) -> None:
        self._read = read
        self._kept: TTLCache[str, _Read] = TTLCache(_ORGANISATIONS, _KEPT_SECONDS)
        self._reads: SingleFlight[str, _Read] = SingleFlight()

    async def of(self, organisation: str) -> _Read:
        if (known := self._kept.get(organisation)) is not None:
            return known
        return await self._reads.run(organisation, lambda: self._keep(organisation))

    async def _keep(self, organisation: str) -> _Read:
        found = self._kept[organisation] = await self._read(organisation)
        return found


class ScheduleRecords:
    """All schedules of an organisation: which ones its code has, and how far they are. At most a few seconds old."""

    def __init__(self, engine: EngineRequests) -> None:
        self._engine = engine
        self._progress = _Kept(self._read_progress)
        self._registered = _Kept(self._read_registered)

    async def of_organisation(self, organisation: str) -> ProgressByEnvironment:
        """What pods have written down, at most of MAX_RECORDS schedules. ApiError 503 where the engine is away."""
        return await self._progress.of(organisation)

    async def registered(self, organisation: str) -> RegisteredByEnvironment:
        """Which schedules the code has, of at most MAX_ENVIRONMENTS. ApiError 503 where the engine is away."""
        return await self._registered.of(organisation)

    async def _read_progress(self, organisation: str) -> ProgressByEnvironment:
        found: dict[str, dict[str, ScheduleProgress]] = {}
        stream, subjects = schedules_stream(organisation), schedule_records(organisation)
        for number, message in enumerate(await self._engine.all_at(stream, subjects, most=MAX_RECORDS)):
            if place := schedule_of_subject(message.subject):
                environment, name = place
                if not _NAME.fullmatch(name):
                    continue
                found.setdefault(environment, {})[name] = _progress(_json(message.data))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return found

    async def _read_registered(self, organisation: str) -> RegisteredByEnvironment:
        found: dict[str, dict[str, list[RegisteredSchedule]]] = {}
        stream, subjects = schedules_stream(organisation), registered_schedules(organisation)
        for message in await self._engine.all_at(stream, subjects, most=MAX_ENVIRONMENTS):
            environment, reported = environment_of_subject(message.subject), _json(message.data)
            if environment and isinstance(reported, dict):
                found[environment] = {version: _readable(value) for version, value in reported.items()}
            await asyncio.sleep(0)
        return found


def parse_schedules(value: Any) -> list[RegisteredSchedule]:
    """What a pod tells of its code. Raises ApiError 422."""
    if not isinstance(value, list) or len(value) > MAX_SCHEDULES:
        raise errors.invalid("schedules", f"must be a list of at most {MAX_SCHEDULES}")
    found: dict[str, RegisteredSchedule] = {}
    for index, item in enumerate(value):
        one = _schedule(item)
        if one is None or one.name in found:
            raise errors.invalid(
                f"schedules[{index}]", "must have a name of its own, cron, timezone and activations"
            )
        try:
            parse_cron(one.cron, one.timezone)
        except CronError as error:
            raise errors.invalid(f"schedules[{index}]", str(error)) from None
        found[one.name] = one
    return list(found.values())


def _readable(value: Any) -> list[RegisteredSchedule]:
    found = [_schedule(item) for item in value[:MAX_SCHEDULES]] if isinstance(value, list) else []
    return [one for one in found if one is not None]


def _schedule(item: Any) -> RegisteredSchedule | None:
    texts = (
        [item.get(field) for field in ("name", "cron", "timezone", "activations")] if _is_map(item) else []
    )
    if not texts or not all(isinstance(text, str) and 0 < len(text) <= _MAX_TEXT for text in texts):
        return None
    name, cron, timezone, activations = texts
    if not _NAME.fullmatch(name) or activations not in ("static", "users"):
        return None
    return RegisteredSchedule(name=name, cron=cron, timezone=timezone, activations=activations)


def _to_json(schedule: RegisteredSchedule) -> dict[str, str]:
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "activations": schedule.activations,
    }


def _progress(value: Any) -> ScheduleProgress:
    """Users' code runs beside what writes it, so what cannot be read is left out."""
    if not _is_map(value):
        return ScheduleProgress()
    sweep = value.get("sweep")
    claimed = value.get("claimed")
    return ScheduleProgress(
        settled=_moment(value.get("settled")),
        ran=_moment(value.get("ran")),
        under_way=_moment(sweep.get("due")) if _is_map(sweep) else None,
        times=str(value.get("times")),
        held=bool(sweep.get("holder")) if _is_map(sweep) else False,
        claimed=frozenset(one for one in claimed if isinstance(one, str))
        if isinstance(claimed, list)
        else frozenset(),
    )


def _json(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _moment(text: Any) -> datetime | None:
    try:
        return parse_time(text) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)
