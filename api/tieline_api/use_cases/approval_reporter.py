"""Reports approvals that runs ask for, for the operator, which notifies about them."""

from collections.abc import Collection

from tieline_api.runs.approval_reports import (
    Look,
    Watch,
    first_ledger,
    is_unreadable,
    new_ids,
    next_ledger,
)
from tieline_api.runs.approvals import ApprovalRef, StoredApproval
from tieline_api.state.documents import DocumentKey
from tieline_api.use_cases.report_rounds import Reporter, WatchedEnvironment, console_url, ledger_at
from tieline_core.engine.approval_reports import KEY, ApprovalLedger
from tieline_core.engine.state_streams import StatePlace
from tieline_core.resources.notifications import APPROVAL_EVENTS
from tieline_protocol.run_records import ENDED

_NANOSECONDS = 1_000_000_000


class ApprovalReporter(Reporter):
    """Looks at the approvals of environments that have notifications about them."""

    events = APPROVAL_EVENTS
    what = "approvals"

    async def _report_environment(self, environment: WatchedEnvironment, since: int) -> int:
        if self._platform.runs.warnings(environment.organisation):
            return 0  # the index does not know of all runs whether they have ended
        watch = Watch(
            since=since / _NANOSECONDS, now=self._now() / _NANOSECONDS, console=console_url(self._platform)
        )
        key = ledger_key(environment.organisation, environment.id)
        stored = await self._platform.documents.get(key)
        ledger = self._parsed(stored, ApprovalLedger.parse)
        if ledger is None:
            await self._replace(key, stored, first_ledger(watch).content())
            return 0
        after = next_ledger(ledger, await self._look(environment, ledger, watch), watch)
        if after is None or not await self._replace(key, stored, after.content()):
            return 0
        return int(after.last > ledger.last)

    async def _look(self, environment: WatchedEnvironment, ledger: ApprovalLedger, watch: Watch) -> Look:
        approvals, organisation = self._platform.approvals, environment.organisation
        found = await approvals.refs(organisation, [environment.id], lambda ref: not ref.is_answered)
        ids = {ref.id for ref in found.refs}
        new = new_ids(ledger, ids, watch)
        refs = [ApprovalRef(id=one, environment=environment.id, is_answered=False) for one in new]
        read = await approvals.read(organisation, refs)
        fresh, closed = [], {one: watch.now for one in new if is_unreadable(one, watch.now)}
        for stored in read.values():
            approval = stored.approval
            closed.pop(approval.id, None)
            if await self._is_open(environment, stored, watch.now):
                fresh.append(approval)
            else:
                closed[approval.id] = approval.until
        return Look(
            unanswered=ids,
            known_from=min(ids) if found.left_out else "",
            fresh=fresh,
            closed=closed,
            withdrawn=await self._withdrawn(environment, ledger, ids),
        )

    async def _is_open(self, environment: WatchedEnvironment, stored: StoredApproval, now: float) -> bool:
        if stored.state(now, run_ended=False) != "open":
            return False
        return not await self._has_ended(environment, stored.approval.run)

    async def _withdrawn(
        self, environment: WatchedEnvironment, ledger: ApprovalLedger, unanswered: Collection[str]
    ) -> Collection[str]:
        named = [one for report in ledger.reports for one in report.approvals if one.id in unanswered]
        return {one.id for one in named if await self._has_ended(environment, one.run)}

    async def _has_ended(self, environment: WatchedEnvironment, run: str) -> bool:
        found = await self._platform.runs.find(environment.organisation, [environment.id], run)
        return bool(found) and found[0].status in ENDED


def ledger_key(organisation: str, environment: str) -> DocumentKey:
    """Where it is kept which approvals of an environment were reported."""
    return ledger_at(StatePlace.of_approval_reports(organisation, environment), KEY)
