"""Reports issues that opened or regressed, for the operator, which notifies about them.

Every replica looks at its own index. The ledger of an environment is changed by compare-and-swap, so that of several
replicas one reports an issue.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tieline_api.conversion.projects import version_name
from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.runs.issue_reports import Watch, next_ledger
from tieline_api.runs.issues import Issue, IssueFilter, IssuePageRequest, newer_version
from tieline_api.state.documents import DocumentKey, DocumentLimits, DocumentScope
from tieline_api.views.issue_lookup import version_age
from tieline_common.backoff import jitter
from tieline_core.engine.issue_reports import KEY, IssueLedger
from tieline_core.engine.state_streams import StatePlace
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.objects import ObjectView
from tieline_core.resources.notifications import ISSUE_EVENTS

logger = logging.getLogger("tieline.issues")

ROUND_SECONDS = 15.0
MAX_ISSUES = 500
"""Of an environment, those that failed last are looked at."""
MAX_ENVIRONMENTS = 50
"""Of an organisation in one round; the next rounds look at the others."""
_ORGANISATION_SECONDS = 10.0
_CONFLICT = 409
LIMITS = DocumentLimits(keys=1, value_bytes=256 * 1024)


@dataclass(frozen=True)
class WatchedEnvironment:
    """An environment with a notification about issues."""

    organisation: str
    namespace: str
    id: str


class IssueReporter:
    """Looks at the issues of environments that have notifications about them."""

    def __init__(self, platform: Dependencies, *, now: Callable[[], int] = time.time_ns) -> None:
        self._platform = platform
        self._now = now
        self._turns: dict[str, deque[WatchedEnvironment]] = {}
        """Of each organisation, the environment that was looked at longest ago comes first."""

    async def run_periodically(self) -> None:
        """Looks every few seconds, for ever."""
        while True:
            await asyncio.sleep(jitter(ROUND_SECONDS))
            try:
                await self.report()
            except Exception:  # without another round nobody would learn of issues
                logger.exception("Cannot look for issues to report, trying again")

    async def report(self) -> int:
        """One round; returns how many reports were written."""
        if not self._platform.cluster.ready:
            return 0
        watched = watched_environments(self._platform)
        by_organisation: dict[str, list[WatchedEnvironment]] = {}
        for one in watched:
            by_organisation.setdefault(one.organisation, []).append(one)
        self._turns = {
            name: _turns(self._turns.get(name, ()), found) for name, found in by_organisation.items()
        }
        written = 0
        for organisation, turns in self._turns.items():
            try:
                async with asyncio.timeout(_ORGANISATION_SECONDS):
                    written += await self._report_organisation(turns, watched)
            except (ApiError, TimeoutError) as error:
                logger.debug(
                    "Issues cannot be reported, trying again: %s",
                    str(error) or type(error).__name__,
                    extra={"organisation": organisation},
                )
        return written

    async def _report_organisation(
        self, turns: deque[WatchedEnvironment], watched: Mapping[WatchedEnvironment, int]
    ) -> int:
        written = 0
        for _ in range(min(len(turns), MAX_ENVIRONMENTS)):
            turns.rotate(-1)
            written += await self._report_environment(turns[-1], watched[turns[-1]])
        return written

    async def _report_environment(self, environment: WatchedEnvironment, since: int) -> int:
        if self._platform.runs.issue_warnings(environment.organisation):
            return 0  # the index has not all that there is
        now = self._now()
        issues = await self._issues(environment, now)
        key = ledger_key(environment.organisation, environment.id)
        stored = await self._platform.documents.get(key)
        ledger = _parsed(stored.text) if stored else None
        watch = Watch(
            since=since,
            now=now,
            console=_console(self._platform),
            version_of=lambda issue: self._version(environment.namespace, issue),
        )
        after = next_ledger(ledger, issues, watch)
        if after is None:
            return 0
        try:
            await self._platform.documents.put(
                key, after.content(), anyway=False, expected=stored.version if stored else None
            )
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            return 0  # another replica was faster
        before = {one.at for one in ledger.reports} if ledger else set()
        return sum(one.at not in before for one in after.reports)

    async def _issues(self, environment: WatchedEnvironment, now: int) -> Sequence[Issue]:
        wanted = IssueFilter(organisation=environment.organisation, environments=(environment.id,))
        page = IssuePageRequest(first=MAX_ISSUES, now=now, age=self._age(environment.namespace))
        return (await self._platform.runs.issues(wanted, page)).issues

    def _age(self, namespace: str) -> Callable[[str], int | None]:
        return lambda version: version_age(self._platform.cluster, namespace, version)

    def _version(self, namespace: str, issue: Issue) -> str:
        """The name of the version in which an issue came back."""
        said = issue.decision
        newer = (
            newer_version(said, issue.versions, self._age(namespace)) if said and said.next_version else ""
        )
        name = newer or issue.last_version
        found = self._platform.cluster.versions.get(namespace, name) if name else None
        return version_name(found) if found is not None else name


def ledger_key(organisation: str, environment: str) -> DocumentKey:
    """Where it is kept what was reported of an environment."""
    return DocumentScope(
        place=StatePlace.of_issue_reports(organisation, environment), bounds=LIMITS
    ).document(KEY)


def watched_environments(platform: Dependencies) -> dict[WatchedEnvironment, int]:
    """The environments that have notifications about issues, with the creation of the first one (nanoseconds)."""
    found: dict[WatchedEnvironment, int] = {}
    for environment, since in _watched(platform):
        found[environment] = min(found.get(environment, since), since)
    return found


def _watched(platform: Dependencies) -> Iterator[tuple[WatchedEnvironment, int]]:
    cluster = platform.cluster
    for notification in cluster.notifications.list():
        namespace, spec = notification["metadata"]["namespace"], notification["spec"]
        events = spec.get("events")
        if events and not ISSUE_EVENTS & set(events):
            continue
        organisation = cluster.organisation_of(namespace)
        project = cluster.referred(cluster.projects, notification, "projectRef")
        if organisation is None or project is None:
            continue
        identifier = environment_id(object_id(project), spec["environment"])
        yield WatchedEnvironment(organisation.id, namespace, identifier), _created(notification)


def _created(obj: ObjectView) -> int:
    return round(datetime.fromisoformat(obj["metadata"]["creationTimestamp"]).timestamp()) * 1_000_000_000


def _turns(
    before: deque[WatchedEnvironment] | tuple[()], found: Sequence[WatchedEnvironment]
) -> deque[WatchedEnvironment]:
    known = set(before)
    there = set(found)
    return deque([*(one for one in found if one not in known), *(one for one in before if one in there)])


def _parsed(content: bytes) -> IssueLedger | None:
    """None where it cannot be read: then all that is there counts as reported."""
    try:
        return IssueLedger.parse(content)
    except ValueError:
        logger.warning("Cannot read which issues were reported: those that are there count as reported")
        return None


def _console(platform: Dependencies) -> str:
    settings = platform.settings
    return f"{settings.public_api_url}/console" if settings.console and settings.public_api_url else ""
