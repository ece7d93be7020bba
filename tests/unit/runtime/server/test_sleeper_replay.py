"""What is recorded of runs that wait, replayed against other code: which go on, which stop and where."""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tieline.events.steps import work_of
from tieline.server.sleeper_replay import Replayed, SleeperReplay
from tieline.server.sleeping_runs import SleepingRun, sleeping_run
from tieline.testing.isolation import loaded
from tieline_protocol.event_streams import hashed
from tieline_protocol.events import InvalidEventError

pytestmark = pytest.mark.fast

HEAD = """
import asyncio
from datetime import timedelta
from tieline import Context, Event, Integration, Request, SyncContext

integration = Integration()
integration.waits_for("paid", match=["id"])

def fetch(id):
    raise AssertionError("a step is done")

@integration.event("order")
"""
OLD_STEPS = (("fetch", work_of(len, ("A-1",), {}), {"id": "A-1"}), ("sleep: pause", "", 0))
"""Of a task that has fetched (by a function named ``len``) and sleeps no more."""


def step(name: str, place: int, work: str, result: Any) -> dict[str, Any]:
    return {
        "name": name,
        "occurrence": 1,
        "place": place,
        "work": work,
        "version": "v1",
        "result": json.dumps(result),
    }


def sleeper(
    *steps: tuple[str, str, Any], kind: str = "event", outcomes: list[Any] | None = None, **more: Any
) -> SleepingRun:
    metadata = {"run": "01RUN", "kind": kind, "task": "order", "queued_at": 1.0, "attempt": 1, **more}
    return sleeping_run(
        {
            "metadata": metadata,
            "payload": base64.b64encode(b'{"id": "A-1"}').decode(),
            "steps": [
                step(name, number + 1, work, value) for number, (name, work, value) in enumerate(steps)
            ],
            "outcomes": outcomes or [],
        }
    )


Judge = Callable[..., Awaitable[Replayed]]


@pytest.fixture
async def judge(tmp_path: Path) -> AsyncIterator[Judge]:
    async with AsyncExitStack() as stack:

        async def judged(body: str, sleeping: SleepingRun | None = None) -> Replayed:
            (tmp_path / "main.py").write_text(HEAD + textwrap.dedent(body))
            _, tasks = stack.enter_context(loaded(tmp_path))
            replay = SleeperReplay(tmp_path, tasks)
            stack.callback(replay.close)
            return await replay.replay(sleeping or sleeper(*OLD_STEPS))

        yield judged


UNCHANGED = """
async def order(ctx: Context, event: Event) -> None:
    found = await ctx.step("fetch", len, event.payload["id"])
    assert found == {"id": "A-1"}
    await ctx.sleep("pause", 60)
    await ctx.step("book", fetch, found)
    raise AssertionError("it goes on behind a step that is not recorded")
"""


async def test_events_wait_for_their_batch_across_a_deploy(tmp_path: Path) -> None:
    batched = HEAD.replace('("order")', '("order", batch=Batch(10))').replace(
        "import Context", "import Batch, Context"
    )
    (tmp_path / "main.py").write_text(
        f"{batched}async def order(ctx: Context, events: list[Event]) -> None:\n    return\n"
    )
    member = sleeper(("batch: order", hashed("batch order"), {"child": "01BATCH", "until": 9e9}))
    with loaded(tmp_path) as (_, tasks), closing(SleeperReplay(tmp_path, tasks)) as replay:
        for _ in range(200):
            assert (await replay.replay(member)).verdict == "continues"


async def test_a_batch_that_sleeps_is_judged_with_its_events(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        """
from tieline import Batch, Context, Event, Integration

integration = Integration()


@integration.event("order", batch=Batch(10))
async def order(ctx: Context, events: list[Event]) -> None:
    await ctx.step("count", len, [one.payload["id"] for one in events])
    await ctx.sleep("pause", 60)
"""
    )
    recorded = (("count", work_of(len, (["A-1"],), {}), 1), ("sleep: pause", "", 9e9))
    batch = replace(
        sleeper(*recorded, batch=True, members=["01RUNA"]),
        payload=b'{"~batch":[[{"run":"01RUNA","queued_at":1},{"id":"A-1"}]]}',
    )
    with loaded(tmp_path) as (_, tasks), closing(SleeperReplay(tmp_path, tasks)) as replay:
        judged = await replay.replay(batch)
        assert (judged.verdict, judged.reason) == ("continues", "")


def plain(body: str) -> str:
    """The same as a plain function."""
    return body.replace("await ", "").replace("async ", "").replace("Context", "SyncContext")


@pytest.mark.parametrize(
    "body",
    [
        UNCHANGED,
        UNCHANGED.replace('await ctx.step("book", fetch, found)', 'await ctx.step("other", fetch, found)'),
        UNCHANGED.replace("    await ctx.sleep", '    ctx.tag("order", "A-1")\n    await ctx.sleep'),
        plain(UNCHANGED),
        "async def order(ctx: Context, event: Event) -> None:\n    return\n",
        """
        async def order(ctx: Context, event: Event) -> None:
            if await ctx.patched("check"):
                await ctx.step("check", fetch, 1)
            await ctx.step("fetch", len, event.payload["id"])
            await ctx.sleep("pause", 60)
        """,
        """
        async def order(ctx: Context, event: Event) -> None:
            try:
                await ctx.step("fetch", len, event.payload["id"])
                await ctx.sleep("pause", 60)
                await ctx.step("book", fetch, 1)
            except Exception:
                raise AssertionError("a step that is not recorded is caught")
        """,
        """
        async def order(ctx: Context, event: Event) -> None:
            await ctx.step("fetch", len, event.payload["id"])
            await ctx.sleep("pause", 60)
            raise RuntimeError("as before, behind what is recorded")
        """,
    ],
    ids=[
        "unchanged",
        "a new step at the end",
        "tags",
        "plain",
        "fewer",
        "patched",
        "catches all",
        "fails later",
    ],
)
async def test_runs_that_find_their_steps_continue(judge: Judge, body: str) -> None:
    assert await judge(body) == Replayed(run="01RUN", task="order", verdict="continues")


LINE = HEAD.count("\n")


NEW_STEP = '    await ctx.step("check", fetch, 1)\n    await ctx.sleep'
MISSED = "before the recorded step"


@pytest.mark.parametrize(
    ("body", "says", "line"),
    [
        (UNCHANGED.replace('"fetch", len', '"load", len'), "Step 1 of this run is 'fetch'", 2),
        (UNCHANGED.replace('"fetch", len', '"fetch", str'), "with another function", 2),
        (UNCHANGED.replace("    await ctx.sleep", NEW_STEP), "Step 2 of this run is 'sleep: pause'", 4),
        (plain(UNCHANGED.replace('"pause"', '"rest"')), "asks for 'sleep: rest'", 4),
        (
            UNCHANGED.replace("    assert", '    found["total"]\n    assert'),
            f"It raises KeyError: 'total' {MISSED} 'sleep: pause'",
            3,
        ),
        (
            UNCHANGED.replace("    found =", '    raise RuntimeError("bug")\n    found ='),
            f"It raises RuntimeError: bug {MISSED} 'fetch'",
            2,
        ),
        (
            "async def order(ctx: Context, event: Event) -> None: ...\n\nintegration.events.clear()\n",
            "There is no task 'order'",
            None,
        ),
    ],
    ids=["renamed", "another function", "a step before", "in a thread", "reads more", "a bug", "no task"],
)
async def test_runs_that_cannot_go_on_stop_with_the_line(
    judge: Judge, body: str, says: str, line: int | None
) -> None:
    found = await judge(body)
    assert found.verdict == "stops"
    assert says in found.reason
    assert found.location == ("" if line is None else f"main.py:{LINE + line + 1}")


OUTSIDE = """
async def order(ctx: Context, event: Event) -> None:
    try:
        {call}
    except Exception:
        pass
    await ctx.step("changed", len, event.payload["id"])
"""


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ('await ctx.fetch("shop", "/orders")', "the connection 'shop' outside of a step"),
        ('await ctx.graphql("shop", "query { a }")', "the connection 'shop' outside of a step"),
        ('await ctx.credentials("shop")', "the connection 'shop' outside of a step"),
        ('await ctx.state.get("cursor")', "ctx.state"),
        ('await ctx.publish("order", {})', "the event 'order', published outside of a step"),
        ("ctx.background(print)", "ctx.background"),
        ('ctx.variables["region"]', "ctx.variables"),
        ('ctx.activation.variables.get("region")', "ctx.variables"),
        ("await asyncio.sleep(3600)", "more than"),
    ],
)
async def test_what_asks_others_outside_of_steps_is_not_judged(
    judge: Judge, call: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.server.sleeper_replay._RUN_SECONDS", 0.2)
    found = await judge(OUTSIDE.format(call=call))
    assert (found.verdict, what in found.reason) == ("unknown", True), found
    assert found.location in ("", f"main.py:{LINE + 4}")


WAITS = """
async def order(ctx: Context, event: Event) -> None:
    paid = await ctx.wait_for("paid", match={"id": event.payload["id"]}, timeout=60)
    await ctx.step("ship" if paid else "cancel", len, "A-1")
    await ctx.sleep("pause", 60)
"""
PAID = {"run": "02RUN", "kind": "event", "task": "paid", "queued_at": 2.0}


@pytest.mark.parametrize(
    ("outcomes", "then", "verdict"),
    [
        ([{"metadata": PAID, "payload": base64.b64encode(b"{}").decode()}], "ship", "continues"),
        ([{"metadata": None, "payload": ""}], "cancel", "continues"),
        ([{"metadata": None, "payload": ""}], "ship", "stops"),
        ([], None, "continues"),
    ],
    ids=["the event", "a timeout", "a timeout that was an event", "still waits"],
)
async def test_waits_end_as_recorded(
    judge: Judge, outcomes: list[dict[str, Any]], then: str | None, verdict: str
) -> None:
    index = "the index"
    steps: list[tuple[str, str, Any]] = [("wait: paid", "", {"index": index, "since": 0, "until": 1})]
    if then:
        steps.append((then, "", None))
    named = [{"wait": f"{hashed('wait: paid')}-1", **one} for one in outcomes]
    assert (await judge(WAITS, sleeper(*steps, outcomes=named))).verdict == verdict


async def test_steps_side_by_side_are_all_judged(judge: Judge) -> None:
    found = await judge(
        """
        async def order(ctx: Context, event: Event) -> None:
            await ctx.gather(ctx.step("new", fetch, 1), ctx.step("fetch", str, "A-1"))
        """
    )
    assert found.verdict == "stops"


async def test_a_queued_webhook_gets_its_request(judge: Judge) -> None:
    found = await judge(
        """
        async def order(ctx: Context, event: Event) -> None: ...

        @integration.webhook("order", delivery="queued")
        async def hook(ctx: Context, request: Request) -> None:
            payload = await request.json()
            await ctx.step("fetch", len, payload["id"])
            await ctx.step("other", len, request.method)
        """,
        sleeper(*OLD_STEPS, kind="webhook", request={"method": "PUT", "path": "/order"}),
    )
    assert "Step 2 of this run is 'sleep: pause'" in found.reason


@pytest.mark.parametrize(
    "content", [{}, {"metadata": {}}, {"metadata": 7, "payload": "", "steps": [], "outcomes": []}]
)
def test_what_is_no_run_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises((InvalidEventError, KeyError, TypeError, ValueError)):
        sleeping_run(content)
