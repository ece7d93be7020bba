"""One scheduled run: what its function gets, and what is seen of it."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from tests.harness.session.waiting import until
from tests.unit.runtime.external_systems import RUN_METADATA, External, api_key, configured, environment
from tieline import Context, Integration, ScheduledRun, SyncContext
from tieline.configuration.users import ConfiguredUsers
from tieline.scheduling.records import STATIC
from tieline.server.scheduled_runs import ScheduledRuns
from tieline.server.webhook_runs import Limits, Runner
from tieline.telemetry.spans import Span, Tracer

DUE = datetime(2026, 11, 2, 9, tzinfo=UTC)
Run = Callable[..., Any]


class Pod:
    """Runs schedules of an integration."""

    def __init__(self, client: aiohttp.ClientSession, external: External) -> None:
        users = {
            "ann": {"variables": {"region": "us"}, "connections": _connection(external.url, "key-of-ann")},
            "ben": {"variables": {}},
        }
        body = environment(external.url, api_key("header"), activationId="01STATIC", users=users)
        body["templates"]["crm"] = {"id": "2", "dynamic": True, "linked": False}
        self.spans: list[Span] = []
        self.integration = Integration()
        configuration = configured(body)
        self.runner = Runner(
            limits=Limits(max_body=1000, max_runs=10, run_timeout=5),
            configuration=configuration,
            client=client,
            run_metadata=RUN_METADATA,
            tracer=Tracer(self.spans.append),
        )
        self.runs = ScheduledRuns(
            self.runner.calls,
            users=ConfiguredUsers(configuration),
            counts=self.runner.counts,
            timeout=5,
        )

    async def run(self, name: str, user: str = STATIC, *, attempt: int = 1) -> None:
        run = ScheduledRun(schedule=name, due=DUE, attempt=attempt)
        await self.runs.run(self.integration.schedules[name], run, user)


def _connection(url: str, key: str) -> dict[str, Any]:
    return {"crm": {"baseUrl": url, "credentials": [api_key("header", key)]}}


@pytest.fixture
def pod(client: aiohttp.ClientSession, external: External) -> Pod:
    return Pod(client, external)


async def test_a_run_is_a_trace_and_a_line_with_its_execution_id(
    pod: Pod, external: External, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    seen: list[tuple[str, ScheduledRun]] = []

    @pod.integration.schedule("sync", "0 * * * *")
    async def sync(ctx: Context, run: ScheduledRun) -> None:
        await ctx.fetch("shop", "/orders")
        seen.append((ctx.execution_id, run))

    await pod.run("sync")
    ((execution, run),) = seen
    assert (run.due, run.attempt, run.schedule) == (DUE, 1, "sync")
    request, trigger = pod.spans
    assert trigger.name == "sync"
    assert trigger.parent_id == ""
    assert request.parent_id == trigger.context.span_id
    told = {name: trigger.attributes[name] for name in ("executionId", "task", "activation", "faas.trigger")}
    assert told == {
        "executionId": execution,
        "task": "sync",
        "activation": "01STATIC",
        "faas.trigger": "timer",
    }
    line = next(record for record in caplog.records if record.getMessage() == "Ran schedule sync")
    assert line.fields["outcome"] == "succeeded"  # type: ignore[attr-defined]
    assert line.fields["due"] == "2026-11-02T09:00:00+00:00"  # type: ignore[attr-defined]
    assert pod.runner.counts.runs["schedule", "sync", "succeeded"] == 1
    assert 'kind="schedule",task="sync",outcome="succeeded"} 1' in pod.runner.counts.text({})


async def test_a_users_run_has_their_connection_variables_and_state(pod: Pod, external: External) -> None:
    seen: list[Any] = []

    @pod.integration.schedule("sync", "0 * * * *", activations="users")
    def sync(ctx: SyncContext) -> None:
        ctx.state.set("times", ctx.state.get("times", 0) + 1)
        seen.append((ctx.variables["region"], ctx.state.get("times"), ctx.fetch("crm", "/people").status))

    await pod.run("sync", "ann")
    await pod.run("sync", "ann")
    assert seen == [("us", 1, 200), ("us", 2, 200)]
    assert external.last.headers["X-API-Key"] == "key-of-ann"
    await pod.run("sync", "nobody")
    assert len(seen) == 2, "the activation has gone since the users were listed"


async def test_failures_and_time_outs_are_logged_and_end_nothing_else(
    pod: Pod, caplog: pytest.LogCaptureFixture
) -> None:
    @pod.integration.schedule("broken", "0 * * * *")
    async def broken() -> None:
        raise RuntimeError("no such thing")

    @pod.integration.schedule("endless", "0 * * * *", timeout=0.05)
    async def endless() -> None:
        await asyncio.sleep(60)

    await pod.run("broken")
    await pod.run("endless")
    messages = [record.getMessage() for record in caplog.records]
    assert "Schedule broken failed: no such thing" in messages
    assert "Schedule endless was stopped after 0.05 seconds" in messages
    assert [span.error for span in pod.spans] == [
        "RuntimeError: no such thing",
        "TimeoutError: stopped after 0.05 seconds",
    ]
    assert pod.runner.turns.active == 0


async def test_scheduled_runs_take_turns_with_the_others_of_their_activation(pod: Pod) -> None:
    go_on, active = asyncio.Event(), 0

    @pod.integration.schedule("sync", "0 * * * *")
    async def sync() -> None:
        nonlocal active
        active += 1
        await go_on.wait()

    runs = [asyncio.create_task(pod.run("sync")) for _ in range(12)]
    await until(lambda: active >= 9)
    await asyncio.sleep(0.01)  # a tenth would have begun by now
    assert active == 9, "one turn is left for others"
    go_on.set()
    await asyncio.gather(*runs)
    assert active == 12
    assert pod.runner.turns.active == 0


async def test_a_run_that_is_stopped_is_said_to_be_interrupted(
    pod: Pod, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    begun = asyncio.Event()

    @pod.integration.schedule("sync", "0 * * * *")
    async def sync() -> None:
        begun.set()
        await asyncio.sleep(60)

    run = asyncio.create_task(pod.run("sync"))
    await begun.wait()
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    line = next(record for record in caplog.records if record.getMessage() == "Ran schedule sync")
    assert line.fields["outcome"] == "interrupted"  # type: ignore[attr-defined]
    assert pod.runner.turns.active == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"timezone": "Mars"}, "time zone"),
        ({"activations": "all"}, "activations is one of static, users"),
        ({"overlap": "both"}, "overlap one of wait, skip"),
        ({"parallel": 0}, "parallel must be from 1 to 100"),
        ({"catch_up": -1}, "catch_up"),
        ({"timeout": 0}, "timeout"),
        ({"name": "a b"}, "schedule name"),
        ({"name": "taken"}, "two schedules"),
    ],
)
def test_schedules_that_cannot_be_are_refused_where_they_are_declared(
    options: dict[str, Any], says: str
) -> None:
    integration = Integration()
    integration.schedule("taken", "0 * * * *")(lambda: None)
    given = {"name": "sync", "cron": "0 * * * *", **options}
    with pytest.raises(ValueError, match=says):
        integration.schedule(given.pop("name"), given.pop("cron"), **given)


def test_a_function_with_other_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match=r"\(ctx, run\)"):
        Integration().schedule("sync", "0 * * * *")(lambda a, b, c: None)
