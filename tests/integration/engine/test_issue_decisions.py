"""What people decide about issues is the same at every replica, and outlives each of them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.integration.engine.running_history import Replica, replica
from tests.integration.engine.test_run_history import LIMITS, eventually, make_organisation
from tests.unit.api.runs.run_records import record
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.errors import ApiError
from tieline_api.runs.issues import Decision, Issue, IssueFilter, IssuePageRequest
from tieline_api.state.documents import Documents
from tieline_api.use_cases import issue_decisions
from tieline_core.engine.state_streams import StatePlace, ensure_state
from tieline_protocol.run_records import RunError


class Platform:
    """What decisions need of a replica."""

    def __init__(self, one: Replica) -> None:
        self.documents = Documents(one.engine)
        self.runs = one.history


async def issues(one: Replica, organisation: str) -> list[Issue]:
    page = IssuePageRequest(first=100, now=time.time_ns(), age=lambda _: None)
    try:
        return (await one.history.issues(IssueFilter(organisation=organisation), page)).issues
    except EngineUnavailableError:
        return []


async def decide(one: Replica, organisation: str, issue: Issue, **fields: Any) -> None:
    platform: Any = Platform(one)
    await issue_decisions.decide(platform, organisation, issue, lambda _: Decision(**fields))


def failed(task: str) -> Any:
    return record(status="failed", attempt=1, task=task, error=RunError(type="E", message="m"))


async def test_every_replica_has_what_was_decided_and_a_new_one_reads_it(
    engine: NatsServer, tmp_path: Path
) -> None:
    admin = await engine.admin()
    organisation = await make_organisation(engine, admin)
    await ensure_state(admin.jetstream(), organisation.id, LIMITS)
    await organisation.report(failed("a"), failed("b"), failed("a"))
    async with replica(engine, tmp_path / "a") as first, replica(engine, tmp_path / "b") as second:

        async def counted() -> bool:
            found = [await issues(one, organisation.id) for one in (first, second)]
            return [sorted(issue.runs for issue in each) for each in found] == [[1, 2]] * 2

        await eventually(counted)
        issue = next(one for one in await issues(first, organisation.id) if one.task == "a")
        await decide(first, organisation.id, issue, state="muted", at=7, reason="known")
        states = {one.task: one.state for one in await issues(first, organisation.id)}
        assert states == {"a": "muted", "b": "open"}, "who has written reads it"

        async def muted() -> bool:
            return {one.task: one.state for one in await issues(second, organisation.id)} == states

        await eventually(muted)
        # Two people at two replicas: each decision is one of them, and all have the same.
        await asyncio.gather(
            *(
                decide(one, organisation.id, issue, state="resolved", at=number, by=f"p{number}")
                for number, one in enumerate((first, second) * 3, 1)
            )
        )

        async def agree() -> bool:
            both = [await issues(one, organisation.id) for one in (first, second)]
            said = [{one.task: one.decision for one in each} for each in both]
            return said[0] == said[1] and (said[0]["a"] or Decision()).by.startswith("p")

        await eventually(agree)
        place = StatePlace.of_issues(organisation.id, issue.environment)
        await admin.jetstream().publish(place.subject("no-issue"), b"{}")
        await admin.jetstream().publish(place.subject("f" * 20), b"no decision")
        await eventually(lambda: _counted(first))
        kept = {one.task: one.decision for one in await issues(first, organisation.id)}
    async with replica(engine, tmp_path / "new") as third, replica(engine, tmp_path / "a") as again:
        for one in (third, again):

            async def there(one: Replica = one) -> bool:
                return {each.task: each.decision for each in await issues(one, organisation.id)} == kept

            await eventually(there)
    await admin.close()


async def _counted(one: Replica) -> bool:
    return one.followers.counts["malformed"] >= 2


async def test_without_the_stream_issues_are_listed_and_a_decision_is_refused(
    engine: NatsServer, tmp_path: Path
) -> None:
    admin = await engine.admin()
    organisation = await make_organisation(engine, admin)
    await organisation.report(failed("a"))
    async with replica(engine, tmp_path) as one:

        async def listed() -> bool:
            return bool(await issues(one, organisation.id))

        await eventually(listed)
        (issue,) = await issues(one, organisation.id)
        with pytest.raises(ApiError) as refused:
            await decide(one, organisation.id, issue, state="resolved")
        assert refused.value.status == 503
        await ensure_state(admin.jetstream(), organisation.id, LIMITS)
        await decide(one, organisation.id, issue, state="resolved", at=2**62)

        async def resolved() -> bool:
            return [each.state for each in await issues(one, organisation.id)] == ["resolved"]

        await eventually(resolved)
    await admin.close()
