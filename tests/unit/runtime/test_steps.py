"""A step begins while its run is this pod's alone, and gets no result of another step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from threading import get_ident
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tieline.context import Context
from tieline.events.memory_runs import MemoryRuns
from tieline.events.run_store import KeptStep, RunTakenOver, StepPlace, StepsClaim
from tieline.events.steps import RunSteps, StepsChanged, SuspendedRun, work_of
from tieline.sync import SyncContext, run_thread

pytestmark = pytest.mark.fast


class SlowRuns(MemoryRuns):
    """An answer takes longer than a lease, and meanwhile another pod does the run."""

    slow = ""
    taken_over = False

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        claim = await super().claim_steps(run, any_kept=any_kept)
        if self.slow == "claim":
            self.taken_over = True
        return claim

    async def step_result(self, run: str, step: StepPlace, *, claim: StepsClaim) -> KeptStep:
        found = await super().step_result(run, step, claim=claim)
        if self.slow == "result":
            self.taken_over = True
        return found


@pytest.mark.parametrize("slow", ["claim", "result"])
async def test_a_step_is_not_done_again_when_the_lease_ends_while_the_engine_is_asked(
    slow: str,
) -> None:
    runs = SlowRuns()
    claim = await runs.claim_steps("run", any_kept=False)
    kept = KeptStep(name="book", occurrence=1, place=1, work="", version="v1", result=b"1")
    await runs.save_step("run", kept, claim=claim)
    runs.slow = slow
    steps = RunSteps(
        runs,
        "run",
        may_have_results=True,
        held=lambda: not runs.taken_over,
        clock=lambda: 0.0,
    )
    with pytest.raises(RunTakenOver):
        await steps.begin("book")


class Code:
    """What the code of an attempt does; ``did`` has the work that was done and not found."""

    def __init__(self, steps: RunSteps, did: list[str]) -> None:
        self.steps = steps
        self._did = did

    async def step(self, name: str, work: str | None = None, *, fails: bool = False) -> Any:
        step = await self.steps.begin(name, work=work_of(print, (work or name,), {}))
        if step.result is None and fails:
            error = RuntimeError("away")
            self.steps.failed(step, error)
            raise error
        if step.result is None:
            self._did.append(f"{work or name} with {step.idempotency_key}")
        return await self.steps.finish(step, work or name)


Script = Callable[[Code], Awaitable[object]]


class Run:
    """A run whose attempts are of one version or another."""

    def __init__(self) -> None:
        self._runs = MemoryRuns()
        self._attempts = 0
        self.now = 0
        self.did: list[str] = []

    async def attempt(self, script: Script, version: str) -> str:
        """How it ended."""
        self._attempts += 1
        steps = RunSteps(
            self._runs,
            "run",
            may_have_results=self._attempts > 1,
            held=lambda: True,
            clock=lambda: float(self.now),
            version=version,
        )
        try:
            await script(Code(steps, self.did))
        except StepsChanged as changed:
            return str(changed)
        except (SuspendedRun, RuntimeError):
            return "goes on later"
        return "ended"


async def flight(code: Code) -> None:
    await code.step("book", "flight")
    await code.steps.sleep("until the day", 60)


async def insurance_first(code: Code) -> None:
    assert await code.step("book", "insurance") == "insurance", "got another step's result"
    await flight(code)


async def passport_first(code: Code) -> None:
    await code.step("ask for the passport")
    await flight(code)


async def without_flight(code: Code) -> None:
    await code.steps.sleep("until the day", 60)


async def only_insurance(code: Code) -> None:
    await code.step("book", "insurance")


async def passport_beside(code: Code) -> None:
    await asyncio.gather(code.step("book", "insurance"), code.step("ask for the passport"))


async def passport_in_spite_of_all(code: Code) -> None:
    try:
        await code.step("ask for the passport")
    except BaseException:
        await code.step("ask again")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            passport_first,
            "Step 1 of this run is 'book', which version v1 has recorded; version v2 asks for 'ask for",
        ),
        (
            without_flight,
            "Step 1 of this run is 'book', which version v1 has recorded; version v2 asks for 'sleep: un",
        ),
        (
            insurance_first,
            "Step 1 of this run is 'book', which version v1 has recorded; version v2 asks for a step of",
        ),
        (
            only_insurance,
            "Step 1 of this run is 'book', which version v1 has recorded; version v2 asks for a step of",
        ),
        (
            passport_beside,
            "Step 1 of this run is 'book', which version v1 has recorded; version v2 asks for a step of",
        ),
        (passport_in_spite_of_all, "Step 1 of this run is 'book'"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_new_code_gets_no_result_of_another_step(changed: Script, says: str) -> None:
    run = Run()
    assert await run.attempt(flight, "v1") == "goes on later"
    done = list(run.did)
    error = await run.attempt(changed, "v2")
    assert error.startswith(says)
    assert "A replay of this run starts from the beginning" in error
    assert [one for one in run.did if one not in done and "passport" not in one] == []


async def fail_late(code: Code, *, order: tuple[str, ...] = ("a", "b", "c"), fails: bool = False) -> None:
    for name in order:
        await code.step(name, fails=fails and name == order[-1])


async def saga(code: Code, *, hotel: bool) -> None:
    await code.step("book flight")
    try:
        await code.step("book hotel", fails=not hotel)
    except RuntimeError:
        await code.step("cancel flight")
        raise
    await code.step("book car")


async def branches(code: Code, *, slow: str) -> None:
    async def branch(name: str) -> None:
        for _ in range(5 if name == slow else 1):
            await asyncio.sleep(0)
        await code.step(f"begin {name}")
        await asyncio.sleep(0)
        await code.step(f"end {name}", fails=slow == "a")

    await code.step("before")
    await asyncio.gather(branch("a"), branch("b"), return_exceptions=True)
    await code.step("after", fails=slow == "a")


async def timed(code: Code, *, token: str) -> None:
    await code.step("book", token)
    await code.step("pay", fails=token == "monday")


async def alerting(code: Code, *, away: bool, late: bool) -> None:
    """Asks another system outside of steps."""
    await code.step("reserve")
    try:
        if away:
            raise RuntimeError("away")
        await code.step("confirm")
    except RuntimeError:
        await code.step("alert")
        raise
    await code.step("report", fails=late)


async def waiting(code: Code, *, away: bool) -> None:
    try:
        if away:
            raise RuntimeError("away")
    except RuntimeError:
        await code.steps.sleep("until it is back", 60)
    await code.step("book")


@pytest.mark.parametrize(
    ("first", "then", "versions"),
    [
        (partial(fail_late, fails=True), fail_late, ("v1", "v1")),
        (partial(fail_late, fails=True), fail_late, ("v1", "v2")),
        (partial(fail_late, fails=True), partial(fail_late, order=("a", "b", "another")), ("v1", "v2")),
        (partial(saga, hotel=False), partial(saga, hotel=True), ("v1", "v1")),
        (partial(branches, slow="a"), partial(branches, slow="b"), ("v1", "v2")),
        (partial(timed, token="monday"), partial(timed, token="tuesday"), ("v1", "v1")),
        (partial(fail_late, fails=True), partial(fail_late, order=("a",)), ("v1", "v2")),
        (partial(alerting, away=True, late=False), partial(alerting, away=False, late=False), ("v1", "v1")),
        (partial(waiting, away=True), partial(waiting, away=False), ("v1", "v1")),
    ],
    ids=["a retry", "a deploy", "a change after them", "a saga", "side by side", "a token", "steps less", "an error",
         "a sleep after an error"],
)  # fmt: skip
async def test_steps_as_recorded_are_not_refused(
    first: Script, then: Script, versions: tuple[str, str]
) -> None:
    run = Run()
    assert await run.attempt(first, versions[0]) == "goes on later"
    assert await run.attempt(then, versions[1]) == "ended"
    keys = [one.partition(" with ")[2] for one in run.did]
    assert len(keys) == len(set(keys)), "a step was done twice"


async def test_code_that_decides_by_the_time_says_so() -> None:
    run = Run()
    await run.attempt(partial(fail_late, fails=True), "v1")
    error = await run.attempt(partial(fail_late, order=("b", "a")), "v1")
    assert error.startswith(
        "Step 1 of this run is 'a', and this attempt asks for 'b' in its place. The code is the same"
    )


async def test_items_side_by_side_do_not_swap_results() -> None:
    async def items(code: Code, *, order: str, fails: bool) -> None:
        async def one(item: str) -> None:
            await asyncio.sleep(order.index(item) / 1000)
            assert await code.step("send", item) == item

        await asyncio.gather(*map(one, order))
        await code.step("report", fails=fails)

    run = Run()
    await run.attempt(partial(items, order="ab", fails=True), "v1")
    error = await run.attempt(partial(items, order="ba", fails=False), "v1")
    assert "'send'" in error
    assert "Steps that run side by side need names of their own" in error


async def test_an_item_of_bulk_may_change_before_a_retry() -> None:
    sent = []

    async def items(code: Code, *, changed: str, fails: bool) -> None:
        context = SyncContext(cast(Context, SimpleNamespace(steps=code.steps)), asyncio.get_running_loop())
        orders = [{"id": 1, "changed": changed}]
        await asyncio.to_thread(context.bulk, "send", orders, sent.append, key=lambda order: order["id"])
        await code.step("report", fails=fails)

    run = Run()
    assert await run.attempt(partial(items, changed="monday", fails=True), "v1") == "goes on later"
    assert await run.attempt(partial(items, changed="tuesday", fails=False), "v1") == "ended"
    assert sent == [{"id": 1, "changed": "monday"}]


async def test_an_error_between_recorded_steps_is_no_other_code() -> None:
    run = Run()
    for away, late, ends in (
        (False, True, "goes on later"),
        (True, False, "goes on later"),
        (False, False, "ended"),
    ):
        assert await run.attempt(partial(alerting, away=away, late=late), "v1") == ends
    assert [one.partition(" with ")[0] for one in run.did] == ["reserve", "confirm", "alert", "report"]


async def test_an_error_in_plain_functions_is_no_other_code() -> None:
    def plain(context: SyncContext[Any], away: bool) -> None:
        run_thread.set(get_ident())
        context.step("reserve", str)
        try:
            if away:
                raise RuntimeError("away")
        except RuntimeError:
            context.step("alert", str)
            context.sleep("until it is back", 60)
        context.step("confirm", str)

    async def code(code: Code, *, away: bool) -> None:
        context = SyncContext(cast(Context, SimpleNamespace(steps=code.steps)), asyncio.get_running_loop())
        await asyncio.to_thread(plain, context, away)

    run = Run()
    assert await run.attempt(partial(code, away=True), "v1") == "goes on later"
    assert await run.attempt(partial(code, away=False), "v1") == "ended"


def test_a_proxy_is_not_asked_for_its_name() -> None:
    class Proxy:
        def __getattr__(self, name: str) -> Proxy:
            return Proxy()

        def __call__(self, *_given: object) -> Proxy:
            raise AssertionError("a request to the other side")

    assert work_of(Proxy(), (), {}) == work_of(Proxy(), (), {})


async def patched(code: Code, *, at: str, answers: list[bool]) -> None:
    """The flight, with the insurance as a patch before or after what was recorded."""
    if at == "before":
        answers.append(await code.steps.patched("insurance"))
    await code.step("book", "flight")
    if at == "between":
        answers.append(await code.steps.patched("insurance"))
    await code.steps.sleep("until the day", 60)
    if at == "after":
        answers.append(await code.steps.patched("insurance"))


@pytest.mark.parametrize(("at", "answer"), [("before", False), ("between", False), ("after", True)])
async def test_patched_is_false_where_recorded_steps_have_passed(at: str, answer: bool) -> None:
    run, answers = Run(), list[bool]()
    await run.attempt(flight, "v1")
    run.now = 61
    for version in ("v2", "v2", "v3"):
        await run.attempt(partial(patched, at=at, answers=answers), version)
    assert answers == [answer] * 3
    assert len(run.did) == 1


@pytest.mark.parametrize("at", ["before", "between", "after"])
async def test_a_run_that_began_patched_stays_so(at: str) -> None:
    run, answers = Run(), list[bool]()
    for now, version in ((0, "v2"), (61, "v2"), (61, "v3")):
        run.now = now
        await run.attempt(partial(patched, at=at, answers=answers), version)
    assert set(answers) == {True}


async def test_a_patch_in_a_loop_keeps_its_first_answer() -> None:
    async def old(code: Code) -> None:
        await code.step("a")
        await code.steps.sleep("pause", 60)

    answers = []

    async def new(code: Code) -> None:
        for name in ("a", "b", "c"):
            answers.append(await code.steps.patched("loop"))
            await code.step(name)
            if name == "a":
                await code.steps.sleep("pause", 60)

    run = Run()
    await run.attempt(old, "v1")
    run.now = 61
    assert await run.attempt(new, "v2") == "ended"
    assert answers == [False] * 3


async def test_patches_can_be_added_and_removed_later() -> None:
    answers: list[tuple[str, bool]] = []

    async def code_with(code: Code, *, patches: tuple[str, ...]) -> None:
        answers.extend([(name, await code.steps.patched(name)) for name in patches])
        await code.steps.sleep("pause", 60)

    run = Run()
    await run.attempt(partial(code_with, patches=("one",)), "v1")
    await run.attempt(partial(code_with, patches=("one", "two")), "v2")
    run.now = 61
    assert await run.attempt(partial(code_with, patches=()), "v3") == "ended"
    assert answers == [("one", True), ("one", True), ("two", False)]


async def test_a_patch_after_recorded_patches_alone_is_new() -> None:
    answers = []

    async def first(code: Code) -> None:
        await code.steps.patched("one")
        raise RuntimeError("away")

    async def second(code: Code) -> None:
        answers.append(await code.steps.patched("two"))

    run = Run()
    await run.attempt(first, "v1")
    await run.attempt(second, "v2")
    assert answers == [True]


async def test_steps_side_by_side_of_older_code_count_as_passed() -> None:
    answers = []

    async def old(code: Code) -> None:
        await asyncio.gather(code.step("a"), code.step("b", fails=True))

    async def new(code: Code) -> None:
        answers.append(await code.steps.patched("sides"))
        await asyncio.gather(code.step("a"), code.step("b"))

    run = Run()
    await run.attempt(old, "v1")
    await run.attempt(new, "v2")
    assert answers == [False]


async def test_an_alert_before_the_patch_is_reached_is_no_older_code() -> None:
    answers = []

    async def code(code: Code, *, away: bool) -> None:
        try:
            if away:
                raise RuntimeError("away")
        except RuntimeError:
            await code.step("alert")
            raise
        answers.append(await code.steps.patched("new"))

    run = Run()
    await run.attempt(partial(code, away=True), "v2")
    await run.attempt(partial(code, away=False), "v2")
    assert answers == [True]


async def test_an_answer_of_patched_is_awaited_before_it_is_used() -> None:
    context = cast(Context, SimpleNamespace(steps=None))
    with pytest.raises(TypeError, match="needs await"):
        bool(Context.patched(context, "name"))


@pytest.mark.parametrize("name", ["", "n" * 191, 7])
async def test_names_of_patches_are_bounded(name: Any) -> None:
    steps = RunSteps(MemoryRuns(), "run", may_have_results=False, held=lambda: True, clock=lambda: 0.0)
    with pytest.raises(ValueError, match="The name of a patch"):
        await steps.patched(name)
