"""How full a queue is, in the status of its Project: seen by people, and written rarely."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.unit.operator.objects import NAMESPACE, project
from tests.unit.operator.project_fixtures import reconciling
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.engine.trust import EngineTrust
from tieline_core.kubernetes import resources as r
from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.engine.queue_levels import QUIET_SECONDS, QueueLevel, QueueLevels
from tieline_operator.engine.stream_readings import EnvironmentReading

KEY = StreamKey(NAMESPACE, "orders-engine")


def reading(
    queued: int, waiting: int = 0, dead: int = 0, minutes: float = 0
) -> dict[StreamKey, EnvironmentReading]:
    oldest = datetime.now(UTC) - timedelta(minutes=minutes) if minutes else None
    return {KEY: EnvironmentReading(queued=queued, waiting=waiting, dead_letters=dead, oldest=oldest)}


def test_only_another_order_of_magnitude_is_a_change() -> None:
    levels = QueueLevels()
    assert levels.get(*KEY) is None
    assert levels.update(reading(123, 40, 3), 0) == {KEY}
    assert levels.get(*KEY) == QueueLevel(100, 1)
    assert levels.update(reading(900, 0, 9), 1000) == set()
    assert levels.update(reading(1000, 0, 9), 1000) == {KEY}
    assert levels.update(reading(1000, 0, 9, minutes=12.5), 2000) == {KEY}
    assert levels.get(*KEY) == QueueLevel(1000, 1, oldest_minutes=10)
    assert levels.update(reading(1000, 0, 9, minutes=99.5), 3000) == set()


def test_a_level_changes_at_most_once_a_minute() -> None:
    levels = QueueLevels()
    levels.update(reading(0), 0)
    assert levels.update(reading(5), QUIET_SECONDS - 1) == set()
    assert levels.get(*KEY) == QueueLevel()
    assert levels.update(reading(5), QUIET_SECONDS) == {KEY}


def test_an_environment_that_is_gone_is_forgotten() -> None:
    levels = QueueLevels()
    levels.update(reading(5), 0)
    assert levels.update({}, 100) == set()
    assert levels.get(*KEY) is None


async def deployed() -> ReconcileLoop:
    there = reconciling(project(), engine_signer=EngineTrust().users)
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    return there


async def test_people_see_in_the_status_that_events_pile_up_and_that_some_are_dead() -> None:
    there = await deployed()
    there.queue_level = QueueLevel(1000, 10)
    await there.until_quiet()
    assert (there.environment()["queued"], there.environment()["deadLetters"]) == (1000, 10)
    there.queue_level = QueueLevel()
    await there.until_quiet()
    assert "queued" not in there.environment()
    assert "deadLetters" not in there.environment()


async def test_the_message_says_that_there_are_dead_letters_until_they_are_gone() -> None:
    there = await deployed()
    before = there.ready(r.PROJECTS, "order-sync")
    there.queue_level = QueueLevel(0, 10)
    assert await there.until_quiet() == 2, "the Project, and then its Environment"
    notice = "production: 10+ dead letters; list them with GET runs?status=dead&project_env=production"
    assert there.ready(r.PROJECTS, "order-sync") == (*before[:2], f"{before[2]}; {notice}")
    assert there.environment()["message"] == notice
    there.queue_level = QueueLevel()
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync") == before
    assert "message" not in there.environment()


async def test_the_message_says_that_events_wait_for_long() -> None:
    there = await deployed()
    before = there.ready(r.PROJECTS, "order-sync")
    there.queue_level = QueueLevel(100, 0, oldest_minutes=1)
    await there.until_quiet()
    assert there.environment()["oldestQueuedMinutes"] == 1
    assert there.ready(r.PROJECTS, "order-sync") == before
    there.queue_level = QueueLevel(100, 0, oldest_minutes=10)
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[2] == (
        f"{before[2]}; production: 100+ events are queued, the oldest for 10+ minutes; "
        "list them with GET runs?status=queued&project_env=production"
    )


async def test_an_empty_queue_and_a_restart_of_the_operator_write_nothing() -> None:
    there = await deployed()
    there.queue_level = QueueLevel()
    assert await there.until_quiet() == 0
    there.queue_level = QueueLevel(10, 1, 100)
    await there.until_quiet()
    there.queue_level = None
    assert await there.until_quiet() == 0
    assert there.environment()["queued"] == 10
