"""Reports issues that opened or regressed, for the operator, which notifies about them.

Every replica looks at its own index.
"""

from collections.abc import Callable, Sequence

from tieline_api.conversion.projects import version_name
from tieline_api.runs.issue_reports import Watch, next_ledger
from tieline_api.runs.issues import Issue, IssueFilter, IssuePageRequest, newer_version
from tieline_api.state.documents import DocumentKey
from tieline_api.use_cases.report_rounds import Reporter, WatchedEnvironment, console_url, ledger_at
from tieline_api.views.issue_lookup import version_age
from tieline_core.engine.issue_reports import KEY, IssueLedger
from tieline_core.engine.state_streams import StatePlace
from tieline_core.resources.notifications import ISSUE_EVENTS

MAX_ISSUES = 500
"""Of an environment, those that failed last are looked at."""


class IssueReporter(Reporter):
    """Looks at the issues of environments that have notifications about them."""

    events = ISSUE_EVENTS
    what = "issues"

    async def _report_environment(self, environment: WatchedEnvironment, since: int) -> int:
        if self._platform.runs.issue_warnings(environment.organisation):
            return 0  # the index has not all that there is
        now = self._now()
        issues = await self._issues(environment, now)
        key = ledger_key(environment.organisation, environment.id)
        stored = await self._platform.documents.get(key)
        ledger = self._parsed(stored, IssueLedger.parse)
        watch = Watch(
            since=since,
            now=now,
            console=console_url(self._platform),
            version_of=lambda issue: self._version(environment.namespace, issue),
        )
        after = next_ledger(ledger, issues, watch)
        if after is None or not await self._replace(key, stored, after.content()):
            return 0
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
    return ledger_at(StatePlace.of_issue_reports(organisation, environment), KEY)
