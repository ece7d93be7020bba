"""An issue is reported once by all replicas together, also by one that reads the history anew."""

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
from tests.integration.engine.test_run_history import LIMITS, eventually, make_organisation
from tests.unit.api.runs.run_records import record
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.runs.issue_reports import INTERVAL_SECONDS
from tieline_api.state.documents import Documents
from tieline_api.use_cases import report_rounds
from tieline_api.use_cases.issue_reporter import IssueReporter, ledger_key
from tieline_api.use_cases.report_rounds import WatchedEnvironment
from tieline_core.engine.issue_reports import IssueLedger, IssueReport
from tieline_core.engine.state_reading import values_at
from tieline_core.engine.state_streams import StatePlace, ensure_state
from tieline_protocol.run_records import RunError, RunRecord

NS = 10**9


class Reporting:
    """Reporters of replicas, whose clock is ahead so that nothing is waited for."""

    def __init__(self, one: Replica, organisation: str, environment: str) -> None:
        cluster = SimpleNamespace(ready=True, versions=SimpleNamespace(get=lambda *_: None))
        self.platform: Any = SimpleNamespace(
            documents=Documents(one.engine),
            runs=one.history,
            cluster=cluster,
            settings=SimpleNamespace(public_api_url="", console=True),
        )
        self.watched = {WatchedEnvironment(organisation, "acme", environment): 0}
        self.ahead = 60
        self.reporter = IssueReporter(self.platform, now=lambda: time.time_ns() + self.ahead * NS)


async def reports(one: Reporting) -> Sequence[IssueReport]:
    (environment,) = one.watched
    found = await one.platform.documents.get(ledger_key(environment.organisation, environment.id))
    return IssueLedger.parse(found.text).reports if found else ()


async def there(one: Reporting) -> bool:
    """Whether anything says what was reported."""
    (environment,) = one.watched
    try:
        key = ledger_key(environment.organisation, environment.id)
        return await one.platform.documents.get(key) is not None
    except EngineUnavailableError:
        return False


def failed(task: str) -> RunRecord:
    now = time.time()
    made = record(status="failed", attempt=1, task=task, error=RunError(type="E", message="m"), queued_at=now)
    return replace(made, at=now, ended_at=now)


async def test_replicas_report_an_issue_once_and_one_with_a_new_index_not_again(
    engine: NatsServer, tmp_path: Path, monkeypatch: Any
) -> None:
    admin = await engine.admin()
    organisation = await make_organisation(engine, admin)
    await ensure_state(admin.jetstream(), organisation.id, LIMITS)
    environment = organisation.environments[0]
    watched = {WatchedEnvironment(organisation.id, "acme", environment): 0}
    monkeypatch.setattr(report_rounds, "watched_environments", lambda *_: watched)
    async with replica(engine, tmp_path / "a") as first, replica(engine, tmp_path / "b") as second:
        both = [Reporting(one, organisation.id, environment) for one in (first, second)]

        async def begun() -> bool:
            await asyncio.gather(*(one.reporter.report() for one in both))
            return await there(both[0])

        await eventually(begun)
        await organisation.report(failed("a"), failed("a"), failed("b"))

        async def reported() -> bool:
            await asyncio.gather(*(one.reporter.report() for one in both))
            return bool(await reports(both[0]))

        await eventually(reported)
        for one in both:
            one.ahead += INTERVAL_SECONDS
        await asyncio.gather(*(one.reporter.report() for one in both * 3))
        found = await reports(both[0])
        assert sorted(issue.task for one in found for issue in one.issues) == ["a", "b"]
        assert first.followers.counts["malformed"] == 0, "reports are no decisions"
    async with replica(engine, tmp_path / "new") as third:
        again = Reporting(third, organisation.id, environment)
        again.ahead += 2 * INTERVAL_SECONDS

        async def read() -> bool:
            await again.reporter.report()
            return third.followers.counts["read"] >= 3

        await eventually(read)
        await again.reporter.report()
        assert await reports(again) == found
    place = StatePlace.of_issue_reports(organisation.id, environment)
    (content,) = (await values_at(admin, place, limit=1)).values()
    assert IssueLedger.parse(content).reports == found

    await admin.close()
