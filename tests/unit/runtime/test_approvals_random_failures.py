"""Whatever dies between any two requests to the engine: each approval ends once, with the answer that the API accepted.

Pods and the API have their real code. Answers come while the run of the approval begins to wait, waits, is woken by
something else, or ends.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nats.js.errors import APIError

from tests.harness.session.seeds import seeds
from tests.unit.runtime.simulated_engine import LEASE, STREAMS, SimulatedEngine, SimulatedPod, connection_to
from tieline.events.engine.queue import EngineQueue
from tieline.events.run_approvals import Question, RunApprovals
from tieline.events.run_waits import IN_OWN_TASK, RunWaits
from tieline.events.side_by_side import side_by_side
from tieline.execution.ulids import derived_ulid
from tieline.server.event_attempt import Attempt
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.runs.approvals import Approvals
from tieline_core.engine.stored_messages import StoredMessage
from tieline_protocol.approvals import Answer, Approval
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

LONG, SHORT = 4000.0, 40.0
PODS = 3
RUNS = 15
ROUNDS = 60
SLACK = 10 * LEASE
"""What may pass until something is handed out after a death, and lost tokens of keys are found."""
OUTCOME = tuple[bool, str | None]


class Api:
    """The platform's side, whose requests take their time."""

    def __init__(self, engine: SimulatedEngine) -> None:
        self._engine = engine
        self._connection = connection_to(engine)
        self.approvals = Approvals(cast(Any, SimpleNamespace(of=lambda streams: self)))

    async def ask(self, work: Any, *, seconds: float = 0) -> Any:
        return await work(self)

    async def publish(self, subject: str, content: bytes, *, headers: Any, **_options: Any) -> Any:
        answer = json.loads((await self._connection.request(subject, content, headers=headers)).data)
        if error := answer.get("error"):
            raise APIError(code=400, description=error["description"], err_code=error["err_code"])
        return SimpleNamespace(stream="", seq=answer["seq"], duplicate=answer.get("duplicate", False))

    async def first_at(self, stream: str, subject: str) -> StoredMessage | None:
        found = await self._connection.get(stream, seq=1, next_by_subj=subject)
        if found is None:
            return None
        headers = found.headers or {}
        return StoredMessage(1, headers["Nats-Subject"], headers, found.data)


class Simulation:
    """Runs that ask twice, and people who answer at any moment."""

    def __init__(
        self, seed: int, *, keyed: bool, timeout: float, beside: bool = False, behind: float = 0.0
    ) -> None:
        self.engine = SimulatedEngine(seed, behind=behind)
        self._keyed = keyed
        self._timeout = timeout
        self._beside = beside
        self._calm_at = 0.0
        self._api = Api(self.engine)
        self._answering: set[asyncio.Task[None]] = set()
        self.pods: list[SimulatedPod] = []
        self.seen: dict[tuple[str, str], set[OUTCOME]] = defaultdict(set)
        self.seen_at: dict[tuple[str, str], float] = {}
        self.accepted: dict[tuple[str, str], tuple[str, float]] = {}
        """Who answered and when, where the API said that it counts, by run and title."""
        self.keys: dict[str, str | None] = {}

    async def code(self, waits: RunWaits, attempt: Attempt) -> None:
        run = attempt.metadata.run
        approvals = RunApprovals(waits, run=run, task="asked", user=None, mask=str)

        async def approve(title: str, seconds: float) -> None:
            question = Question.of(title, details={}, by=None, timeout=seconds, form=None, other_than=None)
            answer = await approvals.approve(question, IN_OWN_TASK)
            self.seen[run, title].add((answer.approved, answer.by))
            self.seen_at.setdefault((run, title), self.engine.now)

        if self._beside:
            # The short one wakes the run while the long one is answered.
            await side_by_side([approve("first", self._timeout), approve("second", self._timeout / 10)])
        else:
            await approve("first", self._timeout)
            await approve("second", self._timeout)

    async def begin_run(self, number: int) -> None:
        key = f"{number % 3}" if self._keyed else None
        metadata = EventMetadata(
            run=derived_ulid("01M8DEYCRJWCNN04VG9B6J510F", f"{number}"),
            kind="event",
            task="asked",
            queued_at=self.engine.now,
            key=key,
        )
        self.keys[metadata.run] = key
        publisher = SimulatedPod(self.engine, self.code, [])
        assert await EngineQueue.publish(publisher.queue, metadata, b"{}")

    def answer_some(self) -> None:
        """Somebody answers what they see, perhaps twice, and perhaps what has ended."""
        asked = [one.data for subject, one in self.engine.runs.messages.items() if ".~approval." in subject]
        for content in self.engine.chance.sample(asked, min(len(asked), 3)):
            approval = Approval.decode(content)
            if self.engine.now < approval.until:
                task = asyncio.create_task(self._answer(approval, f"person {len(self._answering)}"))
                self._answering.add(task)

    async def _answer(self, approval: Approval, person: str) -> None:
        now = self.engine.now
        given = Answer(approval=approval.id, approved=self.engine.chance.random() < 0.5, by=person, at=now)
        with suppress(EngineUnavailableError):
            found = await self._api.approvals.answer(STREAMS, approval, given)
            if found.answer == given:
                assert (approval.run, approval.title) not in self.accepted, "two answers were accepted"
                self.accepted[approval.run, approval.title] = (person, now)

    async def settle(self, moments: int) -> None:
        """Pods do some of what there is to do."""
        for _ in range(moments):
            while len(self.pods) < PODS:
                pod = SimulatedPod(self.engine, self.code, [])
                await pod.start()
                self.pods.append(pod)
            self.engine.fire()
            for stream, message in self.engine.deliverable():
                self.engine.chance.choice(self.pods).take(stream, message)
            await asyncio.sleep(0)

    async def kill_one(self) -> None:
        """A pod, or the replica of the API that answers somebody."""
        answering = [task for task in self._answering if not task.done()]
        if answering and self.engine.chance.random() < 0.4:
            self.engine.chance.choice(answering).cancel()
        else:
            await self.pods.pop(self.engine.chance.randrange(len(self.pods))).kill()

    async def rest(self, until: float) -> None:
        """Let time go by without deaths, until nothing is left to do."""
        while True:
            await self.settle(30)
            while any(pod.busy for pod in self.pods) or not all(task.done() for task in self._answering):
                await self.settle(30)
            # As each pod does once a minute.
            await self.pods[0].queue.keys.publish_lost_tokens()
            upcoming = self.engine.next_time
            if upcoming is None or upcoming > until:
                return
            self.engine.now = max(self.engine.now, upcoming)

    async def live(self, *, deaths: float) -> None:
        chance = self.engine.chance
        for number in range(ROUNDS):
            if number < RUNS:
                await self.begin_run(number)
            await self.settle(chance.choice([1, 5, 20, 60, 200]))
            if chance.random() < 0.7:
                self.answer_some()
                await self.settle(chance.choice([0, 1, 3, 10]))
            if self.pods and chance.random() < deaths:
                await self.kill_one()
            if self.pods and number % 5 == 0:
                await self.pods[0].queue.keys.publish_lost_tokens()
            if chance.random() < 0.4:
                self.engine.now += chance.choice([0.5, 5, 31, 70])
        self._calm_at = self.engine.now
        await self.rest(self.engine.now + SLACK)

    def check_woken(self) -> None:
        """A run went on soon after its answer, once nothing dies any more: not only when its time was over."""
        for key, (_, at) in self.accepted.items():
            assert self.seen_at[key] <= max(at, self._calm_at) + SLACK, f"{key} woke late"

    async def check_ended(self) -> None:
        for task in self._answering:
            with suppress(asyncio.CancelledError):
                await task
        ended = {record.id for record in self.engine.history if record.status == "succeeded"}
        assert self.keys.keys() == ended, "an answer is a run of its own, or a run has not ended"
        assert set(self.seen) == {(run, title) for run in ended for title in ("first", "second")}
        assert all(len(seen) == 1 for seen in self.seen.values()), "an approval ended in two ways"
        for key, (person, _) in self.accepted.items():
            ((_, by),) = self.seen[key]
            assert by == person, "the run saw another answer than the one that counts"
        assert not self.engine.later.messages, "a run still waits"
        assert not self.engine.queue.messages, "something is still queued"
        assert not self.engine.dead.messages


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(30))
async def test_each_approval_ends_once_and_wakes_its_run(seed: int, keyed: bool) -> None:
    simulation = Simulation(seed, keyed=keyed, timeout=SHORT if seed % 5 == 4 else LONG, beside=seed % 3 == 0)
    await simulation.live(deaths=0.4 if seed % 4 else 0.0)
    await simulation.rest(simulation.engine.now + 20 * LONG)
    await simulation.check_ended()
    simulation.check_woken()
    assert len(simulation.accepted) > 2


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(4))
async def test_servers_that_are_behind_lose_no_answer(seed: int, keyed: bool) -> None:
    simulation = Simulation(seed, keyed=keyed, timeout=LONG, beside=seed % 2 == 0, behind=0.1)
    await simulation.live(deaths=0.3)
    await simulation.rest(simulation.engine.now + 20 * LONG)
    await simulation.check_ended()
    simulation.check_woken()
