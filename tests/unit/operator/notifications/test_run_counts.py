"""What a pod writes into its history costs the operator little, and nothing of other environments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from nats.aio.client import Client

from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tieline_core.engine.stored_messages import StoredMessage
from tieline_core.engine.trust import AccountSigner, EngineTrust
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.kubernetes import resources as r
from tieline_operator.notifications import run_counts
from tieline_operator.notifications.run_counts import EnvironmentRuns, RunHistoryCounts
from tieline_operator.queues.organisation_turns import STALLED_FAILURES
from tieline_operator.reconcilers.notification.detection import DeadRun, RunCounts
from tieline_protocol.event_streams import EventStreams

NOW = datetime.now(UTC)
RUN: dict[str, Any] = {
    "id": "run", "kind": "event", "task": "t", "status": "dead", "attempt": 1, "queued_at": 1, "at": 1,
}  # fmt: skip
NESTED = "a list in a list"
_DEPTH = 990


def message(*records: dict[str, Any], sequence: int = 1) -> StoredMessage:
    content = orjson.dumps(records).replace(f'"{NESTED}"'.encode(), b"[" * _DEPTH + b"]" * _DEPTH)
    return StoredMessage(sequence, "history.a.b", {}, content, NOW.timestamp())


@pytest.mark.parametrize(
    "odd",
    [
        {"task": 0},
        {"task": None},
        {"task": {"a": 1}},
        {"error": {"type": 1, "message": ["x"]}},
        {"error": {"type": "E", "message": NESTED}},
    ],
    ids=lambda odd: str(odd)[:40] if "error" not in odd else odd["error"]["type"],
)
async def test_dead_runs_with_odd_values_are_counted(odd: dict[str, Any]) -> None:
    runs = EnvironmentRuns()
    await runs.add([message({**RUN, **odd}), message({**RUN, "id": "next", "task": "good"}, sequence=2)])
    assert runs.last == 2
    counts = runs.counts(NOW)
    assert (counts.ended, counts.failed) == (2, 2)


async def test_runs_whose_ids_are_long_are_not_kept() -> None:
    runs = EnvironmentRuns()
    await runs.add([message({**RUN, "id": "x" * 1_000_000}), message(RUN, sequence=2)])
    assert list(runs.runs) == ["run"]
    assert runs.last == 2


async def test_an_environment_that_cannot_be_read_leaves_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pods write the history of their own environment, and notifications of others go on."""
    cluster = FakeCluster()
    cluster.put(r.NAMESPACES, o.namespace())
    project = o.project(
        environments=[{"name": name, "version": "latest"} for name in ("draft", "production")]
    )
    cluster.put(r.PROJECTS, project)
    draft, production = (environment_id(object_id(project), name) for name in ("draft", "production"))
    for name in ("draft", "production"):
        cluster.put(r.NOTIFICATIONS, o.notification(f"tell-{name}", environment=name))

    async def pages(
        _client: Client, _stream: str, subject: str, **_: Any
    ) -> AsyncIterator[Sequence[StoredMessage]]:
        yield [message(RUN)]
        if subject.endswith(draft):
            raise ValueError("cannot be read")

    @asynccontextmanager
    async def opened(_signer: AccountSigner) -> AsyncIterator[Client]:
        yield type("Connected", (), {"is_connected": True})()

    monkeypatch.setattr(run_counts, "read_subject", pages)
    trust = EngineTrust()
    counting = RunHistoryCounts(cluster, trust=lambda: trust, open_account=opened, now=lambda: NOW)
    await counting.poll()
    assert counting.counts(o.NAMESPACE, draft) is None
    expected = RunCounts(
        ended=1, failed=1, last_dead=DeadRun(id="run", task="t", error="no error was recorded")
    )
    assert counting.counts(o.NAMESPACE, production) == expected
    known = counting._environments[EventStreams(o.ORGANISATION, draft)]
    assert known[0].last == 1, "the next poll goes on behind what was read"


class Engine:
    """One environment with dead letters, of which none was in the history lately."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = FakeCluster()
        self.cluster.put(r.NAMESPACES, o.namespace())
        self.cluster.put(r.NOTIFICATIONS, o.notification())
        self.environment = environment_id(object_id(o.project()), "production")
        self.history: list[StoredMessage] = []
        self.newest: DeadRun | None = None
        self.reads = 0
        self.failing = False
        self.seconds = 0.0
        self.set_dead_letters(1)
        monkeypatch.setattr(run_counts, "read_subject", self._pages)
        monkeypatch.setattr(run_counts, "_newest_dead_letter", self._newest)
        trust = EngineTrust()
        self.counting = RunHistoryCounts(
            self.cluster,
            trust=lambda: trust,
            open_account=self._opened,
            now=lambda: NOW,
            clock=lambda: self.seconds,
        )

    def set_dead_letters(self, number: int) -> None:
        moment = "2026-11-01T00:00:00Z"
        status = {
            "name": "production",
            "id": self.environment,
            "status": "running",
            "createdAt": moment,
            "updatedAt": moment,
            "deadLetters": number,
        }
        self.cluster.put(r.PROJECTS, o.project(status={"environments": [status]}))

    async def last_dead(self) -> str | None:
        self.seconds += 3600
        await self.counting.poll()
        found = self.counting.counts(o.NAMESPACE, self.environment)
        assert found is not None
        return found.last_dead.id if found.last_dead else None

    async def _pages(
        self, _client: Client, _stream: str, subject: str, **_: Any
    ) -> AsyncIterator[Sequence[StoredMessage]]:
        if subject.startswith("history."):
            found, self.history = self.history, []
            if found:
                yield found

    async def _newest(self, _client: Client, _streams: EventStreams) -> DeadRun | None:
        self.reads += 1
        if self.failing:
            raise TimeoutError
        return self.newest

    @asynccontextmanager
    async def _opened(self, _signer: AccountSigner) -> AsyncIterator[Client]:
        yield type("Connected", (), {"is_connected": True})()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    return Engine(monkeypatch)


def dead(run: str) -> DeadRun:
    return DeadRun(id=run, task="t", error="E")


async def test_the_newest_dead_letter_is_read_again_when_their_number_changes(engine: Engine) -> None:
    engine.newest = dead("first")
    assert [await engine.last_dead() for _ in range(3)] == ["first"] * 3
    assert engine.reads == 1
    engine.newest = dead("second")
    engine.set_dead_letters(10)
    assert await engine.last_dead() == "second"
    engine.set_dead_letters(0)
    assert await engine.last_dead() is None
    assert engine.reads == 2


@pytest.mark.parametrize("changes", [{"status": "succeeded", "attempt": 2}, {"discarded_at": 2}])
async def test_a_dead_letter_that_was_replayed_or_discarded_is_not_named(
    engine: Engine, changes: dict[str, Any]
) -> None:
    """Their number is a power of ten, and stays."""
    engine.newest = dead("run")
    assert await engine.last_dead() == "run"
    engine.newest = dead("before")
    engine.history = [message({**RUN, **changes})]
    assert await engine.last_dead() == "before"


async def test_that_there_is_no_dead_letter_is_remembered(engine: Engine) -> None:
    assert [await engine.last_dead() for _ in range(3)] == [None] * 3
    assert engine.reads == 1


async def test_an_error_with_dead_letters_is_logged_and_the_history_counts(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.failing = True
    assert [await engine.last_dead() for _ in range(STALLED_FAILURES)] == [None] * STALLED_FAILURES
    assert engine.counting.stalled == 0
    assert [one.levelname for one in caplog.records if "newest dead letter" in one.message] == ["WARNING"]
    engine.failing, engine.newest = False, dead("run")
    assert await engine.last_dead() == "run"
