"""Approvals with a real engine: the API answers, and a run goes on in whatever pod, with kills in between."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.test_waits import publish, until_waiting
from tieline_api.engine.requests import EngineRequests, answer_of
from tieline_api.runs.approvals import Approvals, StoredApproval
from tieline_core.engine.trust import AccountSigner
from tieline_engine.client import EngineClient
from tieline_protocol.approvals import Answer

CODE = """
import os
from datetime import timedelta
from pathlib import Path
from tieline import Context, Event, Integration, SyncContext

integration = Integration()
DONE = Path(os.environ["DONE"])


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")


@integration.event("refund.requested")
async def refund_requested(ctx: Context, event: Event) -> None:
    refund, seconds = event.payload["refund"], event.payload.get("seconds", 3600)
    await ctx.step("ask", write, f"asked {refund}")
    answer = await ctx.approve(f"Refund {refund}?", details=event.payload, timeout=seconds)
    write(f"{refund} {'timed out' if answer.timed_out else answer.by} {answer.approved} {answer.comment}")


@integration.event("keyed", key="customer")
def keyed(ctx: SyncContext, event: Event) -> None:
    answer = ctx.approve(f"Refund {event.payload['refund']}?", timeout=timedelta(hours=1))
    write(f"{event.payload['refund']} {answer.by}")
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


class Engine(EngineRequests):
    """The environment's account, with the rights of the API."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def ask_client(self, work: Any, *, seconds: float = 5) -> Any:
        return await answer_of(self._client, work, seconds=seconds)


class Engines:
    """See EnvironmentEngines."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def of(self, streams: Any) -> Engine:
        return Engine(self._client)


@asynccontextmanager
async def the_api(environment: EventEnvironment) -> AsyncIterator[Approvals]:
    trust, streams = environment.engine.trust, environment.streams
    signer = AccountSigner(trust.account.public_key, trust.api, scoped=True).of_environment(streams)
    client = await environment.engine.client(
        None, signer=signer, client=EngineClient(), inbox_prefix=streams.api_inbox
    )
    try:
        yield Approvals(Engines(client))  # type: ignore[arg-type]
    finally:
        await client.close()


async def all_of(environment: EventEnvironment, api: Approvals) -> list[StoredApproval]:
    streams = environment.streams
    refs = (await api.refs(streams.organisation, [streams.environment], lambda ref: True)).refs
    return list((await api.read(streams.organisation, refs)).values())


async def titled(environment: EventEnvironment, api: Approvals, title: str) -> StoredApproval:
    """The approval with this title, once a pod has stored it."""

    async def is_there() -> StoredApproval | None:
        found = await all_of(environment, api)
        return next((one for one in found if one.approval.title == title), None)

    return await eventually_async(title, is_there, within=60)


async def answer(
    environment: EventEnvironment, api: Approvals, title: str, by: str, *, approved: bool = True
) -> StoredApproval:
    found = await titled(environment, api, title)
    given = Answer(
        approval=found.approval.id, approved=approved, by=by, at=time.time(), comment=f"for {title}"
    )
    return await api.answer(environment.streams, found.approval, given)


async def test_runs_go_on_with_their_answers_and_their_records_say_whose(
    environment: EventEnvironment,
) -> None:
    environment.pod()
    environment.pod()
    runs = [await publish(environment, "refund.requested", refund=number) for number in (1, 2)]
    for number in (3, 4):
        await publish(environment, "keyed", "ann", customer="ann", refund=number)
    await until_waiting(environment, 3)
    async with the_api(environment) as api:
        assert len(await all_of(environment, api)) == 3
        await answer(environment, api, "Refund 2?", "ann", approved=False)
        second = await answer(environment, api, "Refund 2?", "bob")
        assert second.answer is not None
        assert (second.answer.by, second.answer.approved) == ("ann", False)
        await answer(environment, api, "Refund 1?", "bob")
        await answer(environment, api, "Refund 3?", "eve")
        await environment.until_written("3 eve")
        await answer(environment, api, "Refund 4?", "eve")
        for line in ("2 ann False for Refund 2?", "1 bob True for Refund 1?", "4 eve"):
            await environment.until_written(line)
        await environment.until_nothing_waits()
        kept = await all_of(environment, api)
        assert len(kept) == 4, "what was answered is still listed"
        assert all(one.answer is not None for one in kept)
    assert environment.lines().count("asked 1") == 1

    async def ended() -> bool:
        found = await environment.run(runs[1])
        return found is not None and found.status == "succeeded"

    await eventually_async("the record", ended, within=60)
    record = await environment.run(runs[1])
    assert record is not None
    step = next(one for one in record.steps if one.name == "approve: Refund 2?")
    assert step.approval is not None
    assert (step.approval.state, step.approval.by, step.approval.comment) == (
        "rejected",
        "ann",
        "for Refund 2?",
    )
    assert {one.task for one in await environment.history()} == {"refund.requested", "keyed"}


async def test_an_answer_outlives_pods_and_the_engine(environment: EventEnvironment) -> None:
    pod = environment.pod()
    await publish(environment, "refund.requested", refund=1)
    await until_waiting(environment, 1)
    pod.signal(signal.SIGKILL)
    async with the_api(environment) as api:
        await answer(environment, api, "Refund 1?", "ann")
    environment.engine.kill()
    environment.engine.start()
    environment.pod()
    await environment.until_written("1 ann True for Refund 1?")
    await environment.until_nothing_waits()


async def test_an_approval_that_has_timed_out_takes_no_answer(environment: EventEnvironment) -> None:
    environment.pod()
    await publish(environment, "refund.requested", refund=1, seconds=1)
    await environment.until_written("1 timed out False ")
    async with the_api(environment) as api:
        found = await answer(environment, api, "Refund 1?", "ann")
        assert (found.timed_out, found.answer) == (True, None)
    await environment.until_nothing_waits()
    assert environment.lines() == ["asked 1", "1 timed out False "]
