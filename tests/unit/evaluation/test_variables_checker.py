"""Hostile schemas cost whoever wrote them, and nobody else."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.harness.inputs.hostile_schemas import HOSTILE, SLOW_VALUES, doubling_below, nested, slow
from tests.harness.session.waiting import until
from tieline_core.evaluation import variables_checker
from tieline_core.evaluation.pool import EvaluationBusy, Job, Pool
from tieline_core.evaluation.variables_checker import VariablesChecker, check_all
from tieline_core.evaluation.verdicts import FIT
from tieline_core.evaluation.worker import End, Limits

PLAIN = {"type": "object", "required": ["region"], "properties": {"region": {"enum": ["eu", "us"]}}}
# Nothing bounds what uniqueItems costs but the value: it is checked in a process.
UNCOMMON = {"properties": {"names": {"type": "array", "uniqueItems": True}, "region": {"enum": ["eu"]}}}


REFUSED = {
    **HOSTILE,
    "deeper than JSON is written": nested(900),
    "size": {"properties": {"a": {"description": "x" * 300_000}}},
}


@pytest.fixture
async def checker() -> AsyncIterator[VariablesChecker]:
    made = VariablesChecker()
    yield made
    await made.close()


async def test_common_schemas_are_checked_at_once_and_start_no_process(checker: VariablesChecker) -> None:
    assert checker.known(None, {"anything": 1}) == FIT
    assert checker.known(PLAIN, {"region": "eu"}) == FIT
    assert checker.pool.pids == []


async def test_errors_are_made_in_a_process_and_remembered(checker: VariablesChecker) -> None:
    assert checker.known(PLAIN, {"region": "mars"}) is None
    found = await checker.check("acme", PLAIN, {"region": "mars"})
    assert [error.path for error in found.errors] == ["region"]
    assert checker.known(PLAIN, {"region": "mars"}) == found
    assert "objekt" in ((await checker.check("acme", {"type": "objekt"}, {})).problem or "")


async def test_what_is_checked_at_once_is_remembered(
    checker: VariablesChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checker.known(PLAIN, {"region": "eu"}) == FIT
    monkeypatch.setattr(variables_checker, "is_valid_for", None)
    assert checker.known(dict(PLAIN), {"region": "eu"}) == FIT


def spelled(levels: int, prefix: str) -> dict[str, Any]:
    """A doubling schema whose references are written in a way of their own."""
    text = orjson.dumps(doubling_below("x", levels)).replace(b'"#/$defs/', b'"' + prefix.encode())
    schema: dict[str, Any] = orjson.loads(text)
    return schema


SPELLINGS = ["#/$defs/", "#/%24defs/", "#/$defs/%61", "json-schema:///#/$defs/", "/#/$defs/"]


@pytest.mark.parametrize("prefix", SPELLINGS)
async def test_no_reference_is_followed_on_the_event_loop(
    checker: VariablesChecker, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    checked_here: list[bytes] = []
    monkeypatch.setattr(variables_checker, "is_valid_for", lambda text, _: checked_here.append(text))
    assert checker.known(spelled(3, prefix), {"x": 5}) is None
    assert checked_here == []


async def test_what_fails_everywhere_holds_nobody_up(checker: VariablesChecker) -> None:
    """Making these errors takes a validator seconds: 300 for each of 600 objects."""
    schema = {"properties": {"x": {"items": {"required": [f"q{n}" for n in range(280)]}}}}
    began = time.process_time()
    assert checker.known(schema, {"x": [{}] * 600}) is None
    assert time.process_time() - began < 1


async def test_a_turn_of_the_event_loop_is_bounded(
    checker: VariablesChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, checked_in = 0, list[int]()

    def count() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(count)

    def takes_long(_text: bytes, _values: object) -> bool:
        checked_in.append(turns)
        time.sleep(0.003)
        return True

    monkeypatch.setattr(variables_checker, "is_valid_for", takes_long)
    count()
    found = await check_all(checker, "acme", PLAIN, [{"region": "eu", "n": n} for n in range(20)], seconds=30)
    assert found == [FIT] * 20
    assert max(Counter(checked_in).values()) <= 2
    called = asyncio.Event()
    assert checker.request("acme", PLAIN, {"region": "us"}, called.set) == FIT
    assert checker.request("acme", PLAIN, {"region": "eu"}, called.set) is None, (
        "it is asked again in the next turn"
    )
    async with asyncio.timeout(5):
        await called.wait()
    assert checker.request("acme", PLAIN, {"region": "eu"}, called.set) == FIT


async def test_other_schemas_are_checked_in_a_process_and_the_verdict_is_remembered(
    checker: VariablesChecker,
) -> None:
    good, bad = {"names": ["a", "b"]}, {"names": ["a", "a"], "region": "us"}
    assert checker.known(UNCOMMON, good) is None
    assert await checker.check("acme", UNCOMMON, good) == FIT
    found = await checker.check("acme", UNCOMMON, bad)
    assert sorted(error.path for error in found.errors) == ["names", "region"]
    assert checker.known(UNCOMMON, good) == FIT
    assert checker.known(dict(UNCOMMON), bad) == found
    assert len(checker.pool.pids) == 1


@pytest.mark.parametrize("schema", REFUSED.values(), ids=REFUSED.keys())
async def test_a_hostile_schema_is_refused_while_others_are_served(
    checker: VariablesChecker, schema: dict[str, Any]
) -> None:
    hostile = asyncio.ensure_future(checker.check_schema("mallory", schema))
    longest = await longest_pause(hostile)
    assert (await hostile).problem
    again = time.perf_counter()
    assert checker.known(schema, {"x": 1}), "it is not tried again"
    print(
        f"longest pause of the loop {longest * 1e3:.1f} ms, again {(time.perf_counter() - again) * 1e6:.0f} µs"
    )


async def longest_pause(until: asyncio.Future[Any]) -> float:
    """Seconds for which the event loop did nothing, at most, until something is done."""
    longest = 0.0
    while not until.done():
        began = time.perf_counter()
        await asyncio.sleep(0)
        longest = max(longest, time.perf_counter() - began)
        await asyncio.sleep(0.001)
    return longest


async def test_values_that_take_too_much_are_told_and_the_schema_goes_on_for_others(
    checker: VariablesChecker,
) -> None:
    schema = slow()
    hostile = asyncio.ensure_future(checker.check("acme", schema, SLOW_VALUES))
    assert await checker.check("globex", UNCOMMON, {"names": ["b"]}) == FIT, (
        "another organisation has its turn"
    )
    assert not hostile.done()
    found = await hostile
    assert found.costly
    assert found.problem is None
    assert "make the schema simpler" in found.errors[0].message
    assert await checker.check("acme", schema, {"items": ["a"]}) == FIT


async def test_a_schema_that_took_too_much_three_times_is_the_problem_and_its_organisation_is_reported() -> (
    None
):
    told: list[str] = []
    now = 0.0
    checker = VariablesChecker(
        Pool("variables", Limits(cpu_seconds=0.5)), condemned=told.append, clock=lambda: now
    )
    schema = slow()
    try:
        for number in range(3):
            assert told == []
            found = await checker.check("acme", schema, {**SLOW_VALUES, "n": number})
            assert found.costly
        assert told == ["acme"]
        known = checker.known(schema, {"items": []}, tenant="acme")
        assert known
        assert known.problem
        assert await checker.check("globex", schema, {"items": ["b"]}) == FIT, (
            "who has the same schema goes on"
        )
        assert (await checker.check_schema("globex", schema)).problem is None
        now += 3600
        assert await checker.check("acme", schema, {"items": ["a"]}) == FIT, "after a while it is tried again"
    finally:
        await checker.close()


class _Overwhelmed(Pool):
    """Says of each schema that it can be used, and then takes too much for the first of the values."""

    def __init__(self) -> None:
        super().__init__("variables")
        self.turns = 0

    def submit(self, job: Job) -> None:
        asyncio.get_running_loop().call_soon(self._serve, job)

    def _serve(self, job: Job) -> None:  # type: ignore[override]
        self.turns += 1
        assert job.request()
        job.answered(b'{"problem": null}')
        job.ended(End.CPU)


async def test_what_waits_for_a_condemned_schema_is_answered_without_being_tried() -> None:
    pool = _Overwhelmed()
    checker = VariablesChecker(pool)
    values = [{"names": [number]} for number in range(100)]
    found = await check_all(checker, "acme", UNCOMMON, values, seconds=5)
    assert all(verdict and verdict.costly for verdict in found)
    # The third one is told of its values, and all that come after it of the schema.
    assert [verdict.problem is None for verdict in found if verdict].count(True) == 3
    assert pool.turns == 3
    assert not checker._waiting


async def test_many_values_of_one_organisation_do_not_keep_another_waiting(checker: VariablesChecker) -> None:
    """All values of the first one take seconds, so another one's is checked between its turns."""
    options = [{"number": n} for n in range(500)]
    slow_items = {"properties": {"names": {"items": {"not": {"enum": options}}}}}
    values = [{"names": [{"number": -1 - n}] * 50} for n in range(400)]
    all_of_them = asyncio.ensure_future(check_all(checker, "acme", slow_items, values, seconds=60))
    await until(lambda: bool(checker.pool.pids))
    assert await checker.check("globex", UNCOMMON, {"names": ["x"]}) == FIT
    assert not all_of_them.done()
    assert await all_of_them == [FIT] * len(values)


async def test_what_waits_is_bounded(checker: VariablesChecker) -> None:
    large = {"names": ["x" * 1_500_000]}
    waiting = [
        asyncio.ensure_future(checker.check("mallory", UNCOMMON, {**large, "n": n})) for n in range(12)
    ]
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert any(isinstance(one, EvaluationBusy) for one in done)
    assert all(isinstance(one, EvaluationBusy) or one == FIT for one in done)
    assert await checker.check("mallory", UNCOMMON, large) == FIT


async def test_a_process_that_dies_of_what_others_left_is_replaced(checker: VariablesChecker) -> None:
    assert await checker.check("acme", UNCOMMON, {"names": []}) == FIT
    (pid,) = checker.pool.pids
    os.kill(pid, 9)
    assert await checker.check("acme", UNCOMMON, {"names": [1]}) == FIT
    assert checker.pool.pids != [pid]


async def test_a_process_that_the_kernel_ends_is_nobodys_fault(checker: VariablesChecker) -> None:
    """As where the container's memory ends, which others may have taken."""
    asked = asyncio.ensure_future(checker.check("acme", UNCOMMON, {"names": [1]}))
    await until(lambda: bool(checker.pool.pids))
    os.kill(checker.pool.pids[0], 9)
    with pytest.raises(EvaluationBusy):
        await asked
    assert await checker.check("acme", UNCOMMON, {"names": [1]}) == FIT


def limits_and_memory(pid: int) -> tuple[str, int]:
    """What Linux says of a process: its limits, and the bytes that it really uses."""
    told = Path(f"/proc/{pid}")
    return (told / "limits").read_text(), int((told / "statm").read_text().split()[1]) * 4096


async def test_processes_are_limited_and_end_with_the_checker(checker: VariablesChecker) -> None:
    assert await checker.check("acme", UNCOMMON, {"names": []}) == FIT
    (pid,) = checker.pool.pids
    limits, resident = limits_and_memory(pid)
    assert f"{Limits().memory} " in next(line for line in limits.splitlines() if "address space" in line)
    print(f"a process takes {resident / 2**20:.0f} MiB")
    assert resident < 48 * 2**20
    await checker.close()
    with pytest.raises(FileNotFoundError):
        limits_and_memory(pid)
    with pytest.raises(EvaluationBusy):
        await checker.check("acme", UNCOMMON, {"names": [2]})


async def test_what_waits_for_a_verdict_is_called_when_there_is_one(checker: VariablesChecker) -> None:
    called = asyncio.Event()
    assert checker.request("acme", UNCOMMON, {"names": [3]}, called.set) is None
    async with asyncio.timeout(30):
        await called.wait()
    assert checker.request("acme", UNCOMMON, {"names": [3]}, called.set) == FIT
