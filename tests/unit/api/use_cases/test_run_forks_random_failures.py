"""Whatever dies between any two requests: a run that begins at a step has all results before it, or does not exist."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nats.js.errors import APIError

from tests.unit.runtime.simulated_engine import LEASE, STREAMS, SimulatedEngine, SimulatedPod
from tieline.events.run_waits import RunWaits
from tieline.events.wait_store import Wait
from tieline.execution.ulids import new_ulid
from tieline.server.event_attempt import Attempt
from tieline_api.dependencies import Dependencies
from tieline_api.engine.environments import EngineRequests
from tieline_api.errors import ApiError
from tieline_api.runs.ended_steps import EndedSteps, StepName
from tieline_api.runs.history import RunInput
from tieline_api.runs.model import Run
from tieline_api.use_cases import run_forks
from tieline_protocol.child_runs import wait_name
from tieline_protocol.event_streams import hashed
from tieline_protocol.events import EventMetadata
from tieline_protocol.kept_results import KeptOutcome, KeptResult, outcome_name, unpacked
from tieline_protocol.run_records import RunRecord

pytestmark = pytest.mark.fast

NAMES = ("book", "pay", "ship", "mail")
FIRST = StepName("ship")


class _Api:
    """The API's way to the engine, and its history."""

    def __init__(self, engine: SimulatedEngine) -> None:
        self._engine = engine
        self.refuses_after = -1
        """Messages after which the stream of steps is full."""

    async def ask(self, work: Callable[[Any], Awaitable[Any]], *, seconds: float = 5.0) -> Any:
        return await work(self)

    async def publish(
        self, subject: str, payload: bytes, *, stream: str, headers: dict[str, str], **_timeout: float
    ) -> Any:
        await self._moment()
        if stream == STREAMS.runs:
            if self.refuses_after == 0:
                raise ApiError(503, "engine_full", "full")
            self.refuses_after -= 1
        answer = self._engine.publish(subject, payload, headers)
        await self._moment()
        if error := answer.get("error"):
            raise APIError(400, error["description"], error["err_code"])
        return SimpleNamespace(stream=answer["stream"], seq=answer["seq"], duplicate=False)

    async def purge(self, stream: str, subject: str) -> int:
        await self._moment()
        self._engine.api(f"STREAM.PURGE.{stream}", {"filter": subject})
        return 0

    async def require_room(self, _streams: object) -> None:
        return

    async def ended_steps(self, _organisation: str, run: Run) -> EndedSteps | None:
        record = next(one for one in self._engine.history if one.id == run.id and one.status == "succeeded")
        return EndedSteps(record.steps, unpacked(record.step_results or b""))

    async def replayed_input(self, _organisation: str, run: Run) -> RunInput | None:
        return RunInput(b"1", None, recorded=True)

    async def write(self, _streams: object, record: RunRecord) -> None:
        self._engine.history.append(record)

    async def _moment(self) -> None:
        for _ in range(self._engine.chance.randrange(3)):
            await asyncio.sleep(0)

    @property
    def platform(self) -> Dependencies:
        environments = SimpleNamespace(of=lambda _streams: cast(EngineRequests, self))
        cluster = SimpleNamespace(namespace_of=lambda _organisation: None)
        parts = SimpleNamespace(environments=environments, waiting_limits=self, runs=self, cluster=cluster)
        return cast(Dependencies, parts)


class Simulation:
    """A run with four steps that has succeeded, and one that begins at its third."""

    def __init__(self, seed: int, *, key: str | None) -> None:
        self.engine = SimulatedEngine(seed)
        self.api = _Api(self.engine)
        self._key = key
        self.pods: list[SimulatedPod] = []
        self.did: list[tuple[str, str, str]] = []
        """Run, step and idempotency key of the work that was done."""
        self.got: dict[str, list[str]] = {}

    async def code(self, _waits: RunWaits, attempt: Attempt) -> None:
        run, steps = attempt.metadata.run, attempt.steps
        assert steps is not None
        results: list[str] = []
        for name in NAMES:
            step = await steps.begin(name)
            if step.result is None:
                self.did.append((run, name, step.idempotency_key))
            results.append(await steps.finish(step, f"{name} of {run}"))
        self.got[run] = results

    async def origin(self) -> Run:
        metadata = EventMetadata(
            run=new_ulid(), kind="event", task="order", queued_at=self.engine.now, key=self._key
        )
        pod = SimulatedPod(self.engine, self.code, [])
        assert await pod.queue.publish(metadata, b"1")
        await self.rest()
        return Run(
            id=metadata.run,
            kind="event",
            task="order",
            status="succeeded",
            attempt=1,
            key=self._key,
            environment=STREAMS.environment,
            queued_at=1,
            input_at=1,
        )

    async def settle(self, moments: int) -> None:
        for _ in range(moments):
            while len(self.pods) < 2:
                self.pods.append(SimulatedPod(self.engine, self.code, []))
            self.engine.fire()
            for stream, message in self.engine.deliverable():
                self.engine.chance.choice(self.pods).take(stream, message)
            await asyncio.sleep(0)

    async def rest(self) -> None:
        until = self.engine.now + 20 * LEASE
        while True:
            await self.settle(30)
            while any(pod.busy for pod in self.pods):
                await self.settle(30)
            await self.pods[0].queue.keys.publish_lost_tokens()
            upcoming = self.engine.next_time
            if upcoming is None or upcoming > until:
                return
            self.engine.now = max(self.engine.now, upcoming)

    def forks(self, origin: Run) -> list[str]:
        records = [one for one in self.engine.history if one.replay_of == origin.id]
        return list(dict.fromkeys(one.id for one in records))


async def _forked(simulation: Simulation, origin: Run, *, kills: bool) -> bool:
    """Whether the API said that there is a new run; pods and, with ``kills``, the API die meanwhile."""
    chance = simulation.engine.chance
    asked = asyncio.ensure_future(
        run_forks.fork(simulation.api.platform, STREAMS.organisation, origin, FIRST)
    )
    dies_at = chance.randrange(25) if kills else -1
    for moment in range(60):
        if moment == dies_at:
            asked.cancel()
        await simulation.settle(1)
        if simulation.pods and chance.random() < 0.05:
            await simulation.pods.pop().kill()
    (answer,) = await asyncio.gather(asked, return_exceptions=True)
    return isinstance(answer, RunRecord)


@pytest.mark.parametrize("key", [None, "ann"])
@pytest.mark.parametrize("seed", range(40))
async def test_a_run_begins_with_all_results_or_not_at_all(
    seed: int, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Simulation(seed, key=key)
    monkeypatch.setattr(time, "time", simulation.engine.clock)
    origin = await simulation.origin()
    told = await _forked(simulation, origin, kills=seed % 4 != 0)
    await simulation.rest()
    forks = [run for run in simulation.got if run != origin.id]
    assert len(forks) == 1 if told else len(forks) <= 1
    for run in forks:
        assert simulation.forks(origin) == [run]
        assert simulation.got[run] == [
            *(f"{name} of {origin.id}" for name in NAMES[:2]),
            *(f"{name} of {run}" for name in NAMES[2:]),
        ]
        did = {(name, idempotent) for one, name, idempotent in simulation.did if one == run}
        assert did == {(name, f"{run}/{hashed(name)}/1") for name in NAMES[2:]}
    assert not simulation.engine.queue.messages
    assert not simulation.engine.dead.messages


@pytest.mark.parametrize("stored", [0, 1])
async def test_a_full_stream_leaves_nothing_of_the_new_run(stored: int) -> None:
    simulation = Simulation(1, key=None)
    origin = await simulation.origin()
    simulation.api.refuses_after = stored
    with pytest.raises(ApiError) as refused:
        await run_forks.fork(simulation.api.platform, STREAMS.organisation, origin, FIRST)
    assert refused.value.status == 503
    await simulation.rest()
    assert not [one for one in simulation.engine.runs.messages if ".step." in one]
    assert list(simulation.got) == [origin.id]


async def test_a_second_fork_keeps_the_keys_of_the_first_origin() -> None:
    simulation = Simulation(2, key=None)
    origin = await simulation.origin()
    record = await run_forks.fork(simulation.api.platform, STREAMS.organisation, origin, FIRST)
    await simulation.rest()
    (ended,) = [one for one in simulation.engine.history if (one.id, one.status) == (record.id, "succeeded")]
    keys = [one.idempotency_key for one in unpacked(ended.step_results or b"")]
    runs = [key.split("/")[0] for key in keys]
    assert runs == [origin.id, origin.id, record.id, record.id]
    assert [step.recorded for step in ended.steps] == [True, True, False, False]


@pytest.mark.parametrize("status", ["queued", "running", "waiting"])
async def test_a_run_that_has_not_ended_is_refused(status: Any) -> None:
    simulation = Simulation(3, key=None)
    running = Run(
        id=new_ulid(), kind="event", task="order", status=status, attempt=1, environment="e", queued_at=1
    )
    with pytest.raises(ApiError) as refused:
        await run_forks.fork(simulation.api.platform, STREAMS.organisation, running, FIRST)
    assert refused.value.status == 409


@pytest.mark.parametrize("event", [EventMetadata(run="r", kind="event", task="paid", queued_at=1.0), None])
async def test_outcomes_of_waits_are_copied_and_answers_to_approvals_stay_where_they_are(
    event: EventMetadata | None,
) -> None:
    simulation, run = Simulation(4, key=None), new_ulid()
    header = event and event.header()
    waits = [
        KeptResult(
            name=name, name_hash=hashed(name), occurrence=1, place=place, result="{}", is_wait=True,
            outcome=KeptOutcome(wait=wait, event=header, payload="480" if event else ""),
        )
        for place, (name, wait) in enumerate(
            (("wait: paid", outcome_name(hashed("wait: paid"), 1)), ("approve: Pay?", "approval-a")), 1
        )
    ]  # fmt: skip
    await run_forks._take_over(cast(EngineRequests, simulation.api), STREAMS, run, waits)
    found = SimulatedPod(simulation.engine, simulation.code, []).queue.waits
    outcome = await found.outcome(Wait(index="", run=run, name=outcome_name(hashed("wait: paid"), 1)))
    assert outcome is not None
    assert (outcome.event and outcome.event.payload) == (b"480" if event else None)
    assert not [one for one in simulation.engine.runs.messages if "approval-a" in one or "~answered" in one]


@pytest.mark.parametrize("of_another", [True, False])
async def test_the_end_of_a_child_goes_with_the_step_that_started_it_and_no_other(
    *, of_another: bool
) -> None:
    simulation, run, child = Simulation(4, key=None), new_ulid(), new_ulid()
    event = EventMetadata(run=child, kind="event", task="invoice", queued_at=1.0).header()
    step = KeptResult(
        name="run: invoice", name_hash=hashed("run: invoice"), occurrence=1, place=1, is_wait=True,
        result=json.dumps({"child": new_ulid() if of_another else child, "until": 9.0}),
        outcome=KeptOutcome(wait=wait_name(child), event=event, payload='{"number": 7}'),
    )  # fmt: skip
    await run_forks._take_over(cast(EngineRequests, simulation.api), STREAMS, run, [step])
    found = SimulatedPod(simulation.engine, simulation.code, []).queue.waits
    outcome = await found.outcome(Wait(index="", run=run, name=wait_name(child)))
    assert (outcome is None) is of_another
