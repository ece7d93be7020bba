"""An approval is reported once by all replicas together, over restarts, and taken back when it is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.harness.processes.nats_server import NatsServer
from tests.integration.engine.running_history import Replica, replica
from tests.integration.engine.test_run_history import LIMITS, Organisation, eventually, make_organisation
from tests.unit.api.runs.run_records import record
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.runs.approval_reports import INTERVAL_SECONDS, LOST_SECONDS
from tieline_api.runs.approvals import Approvals
from tieline_api.state.documents import Documents
from tieline_api.use_cases import report_rounds
from tieline_api.use_cases.approval_reporter import ApprovalReporter, ledger_key
from tieline_api.use_cases.report_rounds import WatchedEnvironment
from tieline_core.engine.approval_reports import ApprovalLedger, ApprovalReport
from tieline_core.engine.state_streams import ensure_state
from tieline_core.identity.ids import new_id
from tieline_protocol.approvals import Answer, Approval
from tieline_protocol.event_streams import TTL

NS = 10**9


class Reporting:
    """The reporter of a replica, whose clock is ahead so that nothing is waited for."""

    def __init__(self, one: Replica, organisation: Organisation) -> None:
        self.key = ledger_key(organisation.id, organisation.environments[0])
        self.platform: Any = SimpleNamespace(
            documents=Documents(one.engine),
            runs=one.history,
            approvals=Approvals(one.environments),
            cluster=SimpleNamespace(ready=True),
            settings=SimpleNamespace(public_api_url="https://api.example", console=True),
        )
        self.ahead = 0
        self.reporter = ApprovalReporter(self.platform, now=lambda: time.time_ns() + self.ahead * NS)

    async def ledger(self) -> ApprovalLedger | None:
        try:
            found = await self.platform.documents.get(self.key)
        except EngineUnavailableError:
            return None
        return ApprovalLedger.parse(found.text) if found else None

    async def reports(self) -> Sequence[ApprovalReport]:
        found = await self.ledger()
        return found.reports if found else ()


async def ask(organisation: Organisation, title: str) -> Approval:
    """What a pod of the first environment stores."""
    now = time.time()
    approval = Approval(id=new_id(), run=new_id(), task="refund", title=title, asked_at=now, until=now + 3600)
    subject = organisation.streams[0].approval(approval.id, approval.run)
    jetstream = organisation.pods[0].jetstream(timeout=5)
    await jetstream.publish(subject, approval.encode(), headers={TTL: "3600s"})
    return approval


async def test_replicas_report_an_approval_once_and_take_back_what_is_closed(
    engine: NatsServer, tmp_path: Path, monkeypatch: Any
) -> None:
    admin = await engine.admin()
    organisation = await make_organisation(engine, admin)
    await ensure_state(admin.jetstream(), organisation.id, LIMITS)
    watched = {WatchedEnvironment(organisation.id, "acme", organisation.environments[0]): 0}
    monkeypatch.setattr(report_rounds, "watched_environments", lambda *_: watched)
    async with replica(engine, tmp_path / "a") as first, replica(engine, tmp_path / "b") as second:
        both = [Reporting(one, organisation) for one in (first, second)]

        async def look() -> None:
            await asyncio.gather(*(one.reporter.report() for one in both))

        async def begun() -> bool:
            await look()
            return await both[0].ledger() is not None

        await eventually(begun)
        answered, withdrawn, left = [await ask(organisation, title) for title in ("a", "b", "c")]
        for one in both:
            one.ahead = 60

        async def reported() -> bool:
            await look()
            return bool(await both[0].reports())

        await eventually(reported)
        for one in both:
            one.ahead += INTERVAL_SECONDS
        await look()
        (report,) = await both[0].reports()
        assert {one.id for one in report.approvals} == {answered.id, withdrawn.id, left.id}
        assert report.console == "https://api.example/console"

        given = Answer(approval=answered.id, approved=True, by="ann", at=time.time())
        await both[0].platform.approvals.answer(organisation.streams[0], answered, given)
        await organisation.report(replace(record(withdrawn.run, "cancelled", 1), ended_at=time.time()))

        async def taken_back() -> bool:
            await look()
            return [one.total for one in await both[0].reports()] == [1]

        await eventually(taken_back)
        (report,) = await both[0].reports()
        assert [one.id for one in report.approvals] == [left.id]
        assert first.followers.counts["malformed"] == 0, "reports are no decisions"
    async with replica(engine, tmp_path / "new") as third:
        again = Reporting(third, organisation)
        again.ahead = 60 + 2 * INTERVAL_SECONDS

        async def looked() -> bool:
            await again.reporter.report()
            return third.followers.counts["read"] >= 1

        await eventually(looked)
        await again.reporter.report()
        assert await again.reports() == (report,)
        # The engine's volume is lost, and with it what was reported.
        await again.platform.documents.delete(again.key, anyway=True, expected=None)
        again.ahead = LOST_SECONDS + 60
        for _ in range(2):
            await again.reporter.report()
        assert await again.ledger() is not None
        assert await again.reports() == ()
    await admin.close()
