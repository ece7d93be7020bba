"""Whatever happens to pods and to the API, in whatever order: what is promised holds."""

import random
from collections import Counter
from datetime import timedelta

import pytest

from tests.harness.session.seeds import seeds
from tests.unit.scheduling.fake_clock import START
from tests.unit.scheduling.scheduling_pods import Act, Pods, Ran, schedule

EVERY_FIVE_MINUTES = "*/5 * * * *"
EVERY_MINUTE = "* * * * *"


def taking(seconds: float) -> Act:
    async def act(pods: Pods, _ran: Ran) -> None:
        await pods.clock.sleep(seconds)

    return act


async def _live(pods: Pods, chance: random.Random, *, cron: str, troubles: list[str], steps: int) -> None:
    """Pods come and go, at least one of them always there."""
    one = schedule(cron)
    for number in range(steps):
        if len(pods.running) < 3:
            pods.start(f"pod-{number}", one)
        # Mostly around the times at which something happens.
        await pods.clock.pass_time(chance.choice([0.5, 3, 8, 20, 50, 120]))
        trouble = chance.choice(troubles)
        if trouble == "away":
            pods.documents.away = True
            await pods.clock.pass_time(chance.choice([1, 15, 40, 100]))
            pods.documents.away = False
        elif trouble == "lost answer":
            pods.documents.lose_answers += 1
        elif len(pods.running) > 1:
            victim = chance.choice(sorted(pods.running))
            match trouble:
                case "stop":
                    await pods.stop(victim, grace=chance.choice([0, 3, 10]))
                case "kill":
                    await pods.kill(victim)
                case "cut off":
                    pods.ways[victim].broken = True
                    await pods.clock.pass_time(chance.choice([5, 25, 60]))
                    pods.ways[victim].broken = False
    pods.documents.lose_answers = 0
    await pods.clock.pass_time(400)


@pytest.mark.parametrize("seed", seeds(12))
async def test_no_two_at_once_and_a_second_time_says_so(seed: int) -> None:
    pods = Pods(act=taking(30))
    troubles = ["stop", "kill", "away", "cut off", "lost answer", "nothing"]
    await _live(pods, random.Random(seed), cron=EVERY_MINUTE, troubles=troubles, steps=40)
    begun = Counter(ran.due for ran in pods.begun)
    assert pods.at_once == 1
    assert max(begun.values()) <= 2
    for due, count in begun.items():
        assert [ran.attempt for ran in pods.begun if ran.due == due] == [1, 2][:count]
    last = max(begun)
    assert pods.clock.now() - last < timedelta(minutes=6), "they go on"
    await pods.end()


@pytest.mark.parametrize("seed", seeds(12))
async def test_with_stops_alone_each_due_time_is_run_to_its_end_exactly_once(seed: int) -> None:
    pods = Pods(act=taking(7))
    chance = random.Random(seed)
    one = schedule(EVERY_FIVE_MINUTES)
    for number in range(40):
        pods.start(f"pod-{number}", one)
        await pods.clock.pass_time(chance.choice([0.5, 3, 8, 20, 50, 120]))
        if len(pods.running) > 1:
            await pods.stop(chance.choice(sorted(pods.running)), grace=10)
    await pods.clock.pass_time(400)
    dues = [ran.due for ran in pods.ended]
    assert {ran.attempt for ran in pods.begun} == {1}
    assert dues == [START + timedelta(minutes=5 * number) for number in range(1, len(dues) + 1)]
    assert pods.clock.now() - dues[-1] < timedelta(minutes=6)
    await pods.end()


@pytest.mark.parametrize("seed", seeds(12))
async def test_no_due_time_is_lost_while_there_is_a_pod(seed: int) -> None:
    pods = Pods(act=taking(60))
    troubles = ["stop", "kill", "cut off", "lost answer", "nothing"]
    await _live(pods, random.Random(seed), cron=EVERY_FIVE_MINUTES, troubles=troubles, steps=40)
    dues = sorted({ran.due for ran in pods.begun})
    assert dues == [START + timedelta(minutes=5 * number) for number in range(1, len(dues) + 1)]
    await pods.end()
