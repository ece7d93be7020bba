"""What pods have recorded on a real engine of runs that wait, replayed against the next version's code."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.running_history import replica
from tests.integration.engine.test_waits import publish
from tieline.cli.replay_sleepers import replay_in_subprocess
from tieline_api.runs import sleepers
from tieline_api.runs.sleepers import FoundSleepers, Sleepers
from tieline_api.views.sleepers import sleepers_to_rest
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams

CODE = """
import os
from datetime import timedelta
from pathlib import Path
from tieline import Context, Event, Integration, Request, Retry

integration = Integration()
integration.waits_for("paid", match=["id"])


def write(text):
    with Path(os.environ["DONE"]).open("a") as file:
        file.write(f"{text}\\n")
    return text


@integration.event("order", retry=Retry(attempts=2, first=3600))
async def order(ctx: Context, event: Event) -> None:
    number = event.payload["id"]
    await ctx.step("reserve", write, f"reserve {number}")
    if number == "paid":
        await ctx.wait_for("paid", match={"id": number}, timeout=timedelta(days=1))
    if number == "fails":
        raise RuntimeError("tried again in an hour")
    await ctx.sleep("pause", timedelta(days=1))
    await ctx.step("ship", write, f"ship {number}")


@integration.event("refund", key="id")
async def refund(ctx: Context, event: Event) -> None:
    await ctx.step("ask", write, "ask")
    answer = await ctx.approve("Refund?", timeout=timedelta(days=1))
    await ctx.step("note", write, f"approved {answer.approved}")

"""


@dataclass
class Sleeping:
    """Runs that wait in an environment."""

    environment: EventEnvironment
    sleepers: Sleepers
    code: Path

    async def found(self, *, most: int = 100) -> FoundSleepers:
        return await self.sleepers.read(self.environment.streams, most=most)

    async def until_asleep(self, steps: int) -> FoundSleepers:
        """What is found once so many steps are recorded, and no pod runs anything."""

        async def are_there() -> FoundSleepers | None:
            found = await self.found()
            return found if sum(len(one.steps) for one in found.runs) == steps else None

        return await eventually_async(f"{steps} recorded steps", are_there, within=60)

    def replayed(self, found: FoundSleepers, code: str) -> dict[str, dict[str, Any]]:
        """What becomes of runs with other code, by the ids in their payloads."""
        (self.code / "main.py").write_text(code)
        items = json.loads(sleepers_to_rest(found).model_dump_json(by_alias=True, exclude_none=True))["items"]
        ids = [json.loads(base64.b64decode(item["payload"]))["id"] for item in items]
        return dict(zip(ids, replay_in_subprocess(self.code, items), strict=True))


@pytest.fixture
async def sleeping(engine: NatsServer, tmp_path: Path) -> AsyncIterator[Sleeping]:
    (tmp_path / "candidate").mkdir()
    async with (
        running_environment(engine, tmp_path, CODE) as environment,
        replica(engine, tmp_path / "api") as one,
    ):

        async def is_connected() -> bool:
            return one.engine.connected

        await eventually_async("the engine", is_connected)
        environment.pod()
        yield Sleeping(environment, Sleepers(one.environments), tmp_path / "candidate")


def verdicts(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {one: answer["verdict"] for one, answer in found.items()}


NUMBER = '    number = event.payload["id"]\n'


async def test_the_next_version_is_asked_what_it_does_with_the_sleepers(sleeping: Sleeping) -> None:
    for identifier in ("sleeps", "paid", "fails"):
        await publish(sleeping.environment, "order", id=identifier)
    await publish(sleeping.environment, "refund", key="k", id="k")
    found = await sleeping.until_asleep(2 + 2 + 1 + 2)
    assert (len(found.runs), found.total) == (4, 4)
    await publish(sleeping.environment, "paid", id="paid")
    found = await sleeping.until_asleep(2 + 3 + 1 + 2)
    ids = ("sleeps", "paid", "fails", "k")
    assert verdicts(sleeping.replayed(found, CODE)) == dict.fromkeys(ids, "continues")

    inserted = CODE.replace(NUMBER, NUMBER + '    await ctx.step("check", write, "check")\n')
    stopped = sleeping.replayed(found, inserted)
    assert verdicts(stopped) == {**dict.fromkeys(ids, "stops"), "k": "continues"}
    assert "Step 1 of this run is 'reserve', which version v1 has recorded" in stopped["fails"]["reason"]
    line = inserted[: inserted.index('"check"')].count("\n") + 1
    assert stopped["fails"]["location"] == f"main.py:{line}"

    patched = CODE.replace(
        NUMBER,
        NUMBER + '    if await ctx.patched("check"):\n        await ctx.step("check", write, "check")\n',
    )
    assert verdicts(sleeping.replayed(found, patched)) == dict.fromkeys(ids, "continues")

    no_sleep = CODE.replace('    await ctx.sleep("pause", timedelta(days=1))\n', "")
    assert verdicts(sleeping.replayed(found, no_sleep)) == {
        "sleeps": "stops",
        "paid": "stops",
        "fails": "continues",
        "k": "continues",
    }
    other_question = sleeping.replayed(found, CODE.replace("Refund?", "Pay back?"))
    assert verdicts(other_question) == {**dict.fromkeys(ids, "continues"), "k": "stops"}
    assert "'approve: Refund?'" in other_question["k"]["reason"]
    assert sleeping.environment.lines().count("ship sleeps") == 0
    assert "check" not in sleeping.environment.lines()


PATCHED = CODE.replace(
    NUMBER,
    NUMBER
    + '    if await ctx.patched("check"):\n        await ctx.step("check", write, f"check {number}")\n',
)


async def test_a_deploy_with_a_patch_lets_old_and_new_runs_end(sleeping: Sleeping) -> None:
    environment = sleeping.environment
    await publish(environment, "order", id="paid")
    await sleeping.until_asleep(2)
    environment.stop()
    environment.code = PATCHED.replace('"pause", timedelta(days=1)', '"pause", 0.1')
    environment.pod(version="v2")
    await publish(environment, "paid", id="paid")
    await publish(environment, "order", id="new")
    for number in ("paid", "new"):
        await environment.until_written(f"ship {number}")
    assert sorted(environment.lines()) == [
        "check new",
        "reserve new",
        "reserve paid",
        "ship new",
        "ship paid",
    ]


async def test_of_many_sleepers_some_are_chosen(sleeping: Sleeping, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        await publish(sleeping.environment, "order", id=f"{number}")
    await sleeping.until_asleep(12)
    found = await sleeping.found(most=3)
    assert (len(found.runs), found.total) == (3, 6)
    # Two and a half: times that are recorded have more or fewer digits.
    monkeypatch.setattr(sleepers, "MOST_BYTES", 5 * found.runs[0].size // 2)
    found = await sleeping.found()
    assert (len(found.runs), found.total) == (2, 6)


async def test_an_environment_without_streams_has_none(sleeping: Sleeping) -> None:
    streams = EventStreams(sleeping.environment.streams.organisation, new_id())
    assert await sleeping.sleepers.read(streams, most=10) == FoundSleepers(runs=[], total=0)


async def test_what_hostile_code_records_is_left_out(sleeping: Sleeping) -> None:
    environment = sleeping.environment
    await publish(environment, "order", id="good")
    await sleeping.until_asleep(2)
    jetstream = environment.admin.jetstream()
    streams = environment.streams
    bad = await publish(environment, "order", id="bad")
    await sleeping.until_asleep(4)
    await jetstream.publish(streams.step(bad, "odd", 1, place=3), b"\xff", headers={"Tieline-Step": "{"})
    await jetstream.publish(streams.steps_claim("nobody"), b"")
    found = await sleeping.found()
    assert [one.event.payload for one in found.runs] == [b'{"id": "good"}']
    assert found.total == 2, "the other one was not looked at"


async def test_a_run_that_has_ended_is_none(sleeping: Sleeping) -> None:
    environment = sleeping.environment
    await publish(environment, "order", id="ends")
    (asleep,) = (await sleeping.until_asleep(2)).runs
    run = asleep.event.metadata["run"]
    await environment.admin.jetstream().purge_stream(
        environment.streams.later, subject=environment.streams.waiting(run)
    )
    assert await sleeping.found() == FoundSleepers(runs=[], total=0)
