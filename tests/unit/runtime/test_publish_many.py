"""Many events in one call: all are checked first, and each has an answer."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tieline.events.queue import QueueFullError
from tieline.testing import Project
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

HEAD = """
from datetime import timedelta
from tieline import Context, Event, EventsNotStoredError, Integration, NewEvent, Request, Retry, SyncContext

integration = Integration()
done = []

@integration.event("booked", key="customer")
async def booked(ctx: Context, event: Event) -> None:
    done.append((event.payload["number"], ctx.activation.user and ctx.activation.user.external_id))
"""
CONNECTIONS = (
    "connections:\n  erp: {baseUrl: https://erp.example}\nusers:\n  ann: {user: {externalId: ann}}\n"
)
Loaded = Callable[[str], Project]


@pytest.fixture
def loaded(load_project: Callable[[str, str], Project]) -> Loaded:
    return lambda code: load_project(HEAD + code, CONNECTIONS)


@pytest.mark.parametrize("kind", ["async def start(ctx: Context", "def start(ctx: SyncContext"])
def test_each_event_runs_with_its_own_key_user_and_time(loaded: Loaded, kind: str) -> None:
    wait = "await " if kind.startswith("async") else ""
    project = loaded(f"""
@integration.webhook("start")
{kind}) -> str:
    runs = {wait}ctx.publish_many([
        NewEvent("booked", {{"number": 1, "customer": "a"}}),
        NewEvent("booked", {{"number": 2, "customer": "b"}}, user="ann"),
        NewEvent("booked", {{"number": 3}}, id="three"),
        NewEvent("booked", {{"number": 4}}, id="three"),
        NewEvent("booked", {{"number": 5}}, delay=timedelta(hours=1)),
    ])
    return " ".join("again" if run is None else "new" for run in runs)
""")
    assert project.post("/start").text == "new new new again new"
    project.run_events()
    assert sorted(project.module.done, key=str) == [(1, None), (2, "ann"), (3, None)]
    project.advance(timedelta(hours=1))
    assert project.module.done[-1] == (5, None)


def test_events_of_a_key_keep_their_order(loaded: Loaded) -> None:
    project = loaded("""
@integration.webhook("start")
async def start(ctx: Context) -> None:
    await ctx.publish_many(NewEvent("booked", {"number": n, "customer": str(n % 3)}) for n in range(60))
""")
    project.post("/start")
    project.run_events()
    for key in range(3):
        numbers = [number for number, _ in project.module.done if number % 3 == key]
        assert numbers == sorted(numbers)
        assert len(numbers) == 20


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (
            '[NewEvent("booked", {}), NewEvent("booked", {}, key="")]',
            "Event 1 of 2: The key of an event is a text",
        ),
        ('[NewEvent("bokoed", {})]', "There is no task 'bokoed' for events"),
        ('[NewEvent("booked", object())]', "Event 0 of 1: object has no form in JSON"),
        ('[NewEvent("booked", {})] * 1001', "publish_many takes at most 1,000 events"),
        ('[{"task": "booked"}]', "publish_many takes NewEvent objects, not a dict"),
        ('[NewEvent("booked", "x" * 3_000_000)] * 3', "more than 8,388,608 bytes together"),
        ('[NewEvent("booked", "\\ud800")]', "surrogates not allowed"),
    ],
)
def test_nothing_is_stored_if_one_event_is_wrong(loaded: Loaded, events: str, message: str) -> None:
    project = loaded(f"""
@integration.webhook("start")
async def start(ctx: Context) -> str:
    try:
        await ctx.publish_many({events})
    except Exception as error:
        return str(error)
    return "accepted"
""")
    assert message in project.post("/start").text
    assert project.waiting_events == 0


def test_events_that_are_not_stored_are_named_and_the_others_are_stored(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = loaded("""
@integration.event("start", retry=Retry(first=60))
async def start(ctx: Context, event: Event) -> None:
    events = [NewEvent("booked", {"number": number}) for number in range(4)]
    try:
        await ctx.publish_many(events)
    except EventsNotStoredError as error:
        done.append((str(error), [run is not None for run in error.run_ids], sorted(error.failures)))
        raise
""")
    stored = project._queue.publish
    refused = [b'{"number":1}', b'{"number":3}']

    async def publish(metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        if payload in refused:
            raise QueueFullError("no room")
        return await stored(metadata, payload, until=until)

    monkeypatch.setattr(project._queue, "publish", publish)
    project.publish("start", {})
    project.run_events()
    text, stored_ones, failures = next(one for one in project.module.done if len(one) == 3)
    assert text == "2 of 4 events were not stored; the first of them is event 1: no room"
    assert (stored_ones, failures) == ([True, False, True, False], [1, 3])
    refused.clear()
    # The retry publishes what was not stored, and nothing twice.
    project.advance(timedelta(hours=1))
    assert sorted(one[0] for one in project.module.done if len(one) == 2) == [0, 1, 2, 3]


def test_a_step_that_publishes_many_does_so_once(loaded: Loaded) -> None:
    project = loaded("""
fails = [True]

@integration.event("start", retry=Retry(first=3600))
async def start(ctx: Context, event: Event) -> None:
    events = [NewEvent("booked", {"number": number}) for number in range(40)]
    done.append((await ctx.step("publish", ctx.publish_many, events), "runs"))
    if fails and fails.pop():
        raise RuntimeError("away")
""")
    project.publish("start", {})
    project.advance(timedelta(hours=5))
    first, second = (one for one, what in project.module.done if what == "runs")
    assert first == second
    assert sorted(number for number, user in project.module.done if user is None) == list(range(40))
