"""Events on your own machine: the semantics of the engine, with a clock that tests turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tieline.errors import CodeError
from tieline.server.stored_request import kept_request
from tieline.telemetry.redaction import Redactor
from tieline.testing import Project
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

HEAD = """
from datetime import timedelta
from tieline import Context, Event, Integration, Reject, Request, Retry, RetryLater, SyncContext

integration = Integration()
done = []
"""
Loaded = Callable[[str], Project]


CONNECTIONS = (
    "connections:\n  erp: {baseUrl: https://erp.example}\nusers:\n  ann: {user: {externalId: ann}}\n"
)


@pytest.fixture
def loaded(load_project: Callable[[str, str], Project]) -> Loaded:
    return lambda code: load_project(HEAD + code, CONNECTIONS)


ORDERS = """
@integration.webhook("orders", delivery="queued", retry=Retry(attempts=3, first=60))
async def orders(ctx: Context, request: Request) -> None:
    response = await ctx.fetch("erp", "/orders", method="POST", json=await request.json())
    response.raise_for_status()
    done.append(((await request.json())["id"], request.headers["X-Shop"], request.query["page"], ctx.activation.user))
"""


def test_a_queued_webhook_is_stored_and_tried_again_until_the_system_is_back(loaded: Loaded) -> None:
    project = loaded(ORDERS)
    erp = project.connection("erp")
    erp.on("POST", "/orders").answer(500, json={"error": "maintenance"}).answer(201)
    answer = project.post("/orders?page=2", json={"id": "A-1"}, headers={"X-Shop": "berlin"})
    assert (answer.status, project.module.done) == (202, [])
    (first,) = project.run_events()
    assert (first.status, first.attempt, first.run_id) == ("waiting", 1, answer.json()["runId"])
    assert first.error is not None
    assert "maintenance" in first.error
    assert project.run_events() == []
    (second,) = project.advance(timedelta(minutes=2))
    assert (second.status, second.attempt) == ("succeeded", 2)
    assert project.module.done == [("A-1", "berlin", "2", None)]
    assert project.waiting_events == 0


def test_what_fails_in_its_last_attempt_is_a_dead_letter_with_the_systems_answer(loaded: Loaded) -> None:
    project = loaded(ORDERS)
    project.connection("erp").on("POST", "/orders").answer(500, json={"error": "closed for ever"})
    project.post("/orders", json={"id": "A-1"})
    attempts = project.advance(timedelta(hours=1))
    assert [attempt.status for attempt in attempts] == ["waiting", "waiting", "dead"]
    (letter,) = project.dead_letters
    assert (letter.task, letter.payload) == ("orders", {"id": "A-1"})
    assert "closed for ever" in letter.error


def test_a_repeated_request_is_stored_once(loaded: Loaded) -> None:
    project = loaded(ORDERS)
    project.connection("erp").on("POST", "/orders").answer(201)
    for expected in ({"runId"}, {"duplicate"}):
        answer = project.post("/orders", json={"id": "A-1"}, headers={"Webhook-Id": "evt-1"})
        assert set(answer.json()) == expected
    assert project.waiting_events == 1


def test_a_body_that_cannot_be_read_is_a_dead_letter_at_once(loaded: Loaded) -> None:
    project = loaded(ORDERS)
    assert project.post("/orders", data="no JSON").status == 202
    (attempt,) = project.run_events()
    assert attempt.status == "dead"
    assert attempt.error is not None
    assert attempt.error.startswith("The request's body cannot be read")


def test_requests_of_a_key_stay_in_order_and_a_retry_holds_up_that_key_alone(loaded: Loaded) -> None:
    project = loaded("""
fails = ["ann"]

@integration.webhook("orders", delivery="queued", key="customer.id")
def orders(ctx: SyncContext, request) -> None:
    order = request.json()
    if order["customer"]["id"] in fails:
        fails.remove(order["customer"]["id"])
        raise RuntimeError("away")
    done.append((order["customer"]["id"], order["number"]))
""")
    for number in (1, 2):
        for customer in ("ann", "ben"):
            project.post("/orders", json={"customer": {"id": customer}, "number": number})
    project.post("/orders", json={"number": 3, "customer": {"id": None}})
    project.post("/orders", data="no JSON")
    project.run_events()
    assert sorted(map(str, project.module.done)) == ["('ben', 1)", "('ben', 2)", "(None, 3)"]
    project.advance(70)
    assert project.module.done[3:] == [("ann", 1), ("ann", 2)]


KEYED = """
fails = {"ann": 1}

@integration.event("order", key="customer.id", retry=Retry(first=60))
def order(ctx: SyncContext, event: Event) -> None:
    customer = event.payload["customer"]["id"]
    if fails.get(customer, 0):
        fails[customer] -= 1
        raise RuntimeError("away")
    done.append((customer, event.payload["number"]))
"""


def test_events_of_a_key_stay_in_order_and_a_retry_holds_up_that_key_alone(loaded: Loaded) -> None:
    project = loaded(KEYED)
    for number in (1, 2):
        for customer in ("ann", "ben"):
            project.publish("order", {"customer": {"id": customer}, "number": number})
    project.run_events()
    assert project.module.done == [("ben", 1), ("ben", 2)]
    project.advance(70)
    assert project.module.done[2:] == [("ann", 1), ("ann", 2)]


def test_an_event_of_a_removed_task_is_a_dead_letter_within_minutes(loaded: Loaded) -> None:
    project = loaded(KEYED)
    removed = EventMetadata(run="r", kind="event", task="removed", queued_at=0, key="k")
    project._wait(project._queue.publish(removed, b"{}"))
    attempts = project.advance(timedelta(minutes=10))
    assert attempts[-1].status == "dead"
    assert "has no task 'removed'" in str(attempts[-1].error)


def test_a_key_is_of_its_task_and_user_alone_unless_it_is_shared(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("away", key="id", retry=Retry(first=600))
@integration.event("away-together", key="id", shared_key=True, retry=Retry(first=600))
def away(ctx: SyncContext, event: Event) -> None:
    raise RuntimeError("away")

@integration.event("here", key="id")
@integration.event("here-together", key="id", shared_key=True)
def here(ctx: SyncContext, event: Event) -> None:
    done.append((event.task, ctx.activation.user.external_id if ctx.activation.user else None))
""")
    for task in ("away", "away-together", "here", "here-together"):
        project.publish(task, {"id": 7})
        project.publish(task, {"id": 7}, user="ann")
    project.run_events()
    assert sorted(map(str, project.module.done)) == ["('here', 'ann')", "('here', None)"]


def test_an_event_moves_to_the_key_of_its_task_once(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("ship", key="id", shared_key=True)
def ship(ctx: SyncContext, event: Event) -> None:
    done.append(event.key)
""")
    moved: list[EventMetadata] = []

    async def requeue(metadata: EventMetadata, payload: bytes) -> None:
        moved.append(metadata)

    project._queue.requeue = requeue
    given = EventMetadata(run="r", kind="event", task="ship", queued_at=1, key="7")
    project._wait(project._queue.publish(given, b"{}"))
    project.run_events()
    assert [one.shared_key for one in moved] == [True]
    assert project.module.done == []
    # Meanwhile a pod of a version that does not share the key had it.
    project._wait(project._queue.publish(replace(moved[0], shared_key=False), b"{}"))
    project.run_events()
    assert (len(moved), project.module.done) == (1, ["7"])


def test_a_payload_that_is_nested_too_deep_is_a_dead_letter(loaded: Loaded) -> None:
    project = loaded(KEYED)
    deep = EventMetadata(run="r", kind="event", task="order", queued_at=1)
    project._wait(project._queue.publish(deep, b"[" * 100_000 + b"]" * 100_000))
    attempts = project.advance(timedelta(days=1))
    assert attempts[-1].status == "dead"


def publish_by_rest(project: Project, payload: bytes, *, run: str = "r") -> None:
    """Without the key, as who does not know the code."""
    metadata = EventMetadata(run=run, kind="event", task="order", queued_at=project.now())
    project._wait(project._queue.publish(metadata, payload))


@pytest.mark.parametrize("customer", ["x" * 70_000, "\u00fc" * 20_000, "9" * 501])
def test_a_key_too_long_for_the_engine_makes_a_dead_letter_once(loaded: Loaded, customer: str) -> None:
    project = loaded(KEYED)
    publish_by_rest(project, json.dumps({"customer": {"id": customer}, "number": 1}).encode())
    assert [one.status for one in project.run_events()] == ["dead"]
    (letter,) = project.dead_letters
    assert "'customer.id'" in letter.error
    assert customer[:20] not in letter.error
    assert project.advance(timedelta(days=1)) == []


def test_a_published_key_that_is_too_long_is_refused_by_the_name_of_its_field(loaded: Loaded) -> None:
    with pytest.raises(ValueError, match=r"'customer\.id'.*500 characters"):
        loaded(KEYED).publish("order", {"customer": {"id": "x" * 501}, "number": 1})


def test_equal_numbers_are_one_key(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("order", key="id")
def order(ctx: SyncContext, event: Event) -> None:
    done.append(event.key)
""")
    for number, text in enumerate(("1", "1.0", "1e0", '"1"', "0", "-0.0", "true", "null")):
        publish_by_rest(project, f'{{"id": {text}}}'.encode(), run=f"r{number}")
    project.run_events()
    assert sorted(map(str, project.module.done)) == ["0", "0", "1", "1", "1", "1", "None", "true"]


SAGA = """
fails = [True]
keys = []

@integration.event("saga", retry=Retry(first=60))
async def saga(ctx: Context, event: Event) -> None:
    stock = await ctx.step("reserve", reserve, event.payload["id"])
    assert stock == {"items": [1, 2]}, stock
    await ctx.sleep("cool off", timedelta(days=1))
    for item in stock["items"]:
        await ctx.step("book", lambda: (done.append(f"book {item}"), keys.append(ctx.idempotency_key)) and None)
    if fails.pop() if fails else False:
        raise RuntimeError("away")
    done.append(f"end in attempt {event.attempt}")

def reserve(order):
    done.append(f"reserve {order}")
    return {"items": (1, 2)}
"""


def test_steps_are_done_once_and_a_run_sleeps_for_days(loaded: Loaded) -> None:
    project = loaded(SAGA)
    project.publish("saga", {"id": "A-1"})
    (first,) = project.run_events()
    assert (first.status, first.attempt, first.steps) == ("waiting", 1, ("reserve", "sleep: cool off"))
    assert project.advance(timedelta(hours=23)) == []
    attempts = project.advance(timedelta(hours=2))
    assert [(one.status, one.attempt) for one in attempts] == [("waiting", 1), ("succeeded", 2)]
    assert project.module.done == ["reserve A-1", "book 1", "book 2", "end in attempt 2"]
    assert len(set(project.module.keys)) == 2


@pytest.mark.parametrize(
    "task",
    [
        """
@integration.event("moody", retry=Retry(first=60))
async def moody(ctx: Context, event: Event) -> None:
    try:
        await ctx.step("first" if event.attempt == 1 else "other", done.append, "step")
    except BaseException:
        return
    raise RuntimeError("away")
""",
        """
@integration.event("moody", retry=Retry(first=60))
def moody(ctx: SyncContext, event: Event) -> None:
    ctx.step("first" if event.attempt == 1 else "other", done.append, "step")
    raise RuntimeError("away")
""",
    ],
    ids=["a coroutine that catches everything", "a plain function"],
)
def test_an_attempt_with_other_steps_is_a_dead_letter(loaded: Loaded, task: str) -> None:
    project = loaded(task)
    project.publish("moody", {})
    attempts = project.advance(timedelta(hours=1))
    assert [one.status for one in attempts] == ["waiting", "dead"]
    assert attempts[1].error is not None
    assert attempts[1].error.startswith(
        "Step 1 of this run is 'first', and this attempt asks for 'other' in its place"
    )
    assert project.module.done == ["step"]


def test_threads_of_a_plain_function_may_take_steps_in_any_order(loaded: Loaded) -> None:
    project = loaded("""
from concurrent.futures import ThreadPoolExecutor

@integration.event("threads", retry=Retry(first=60))
def threads(ctx: SyncContext, event: Event) -> None:
    ctx.step("first", done.append, "first")
    names = ["a", "b"] if event.attempt == 1 else ["b", "a"]
    with ThreadPoolExecutor(1) as pool:
        list(pool.map(lambda name: ctx.step(name, done.append, name), names))
    items = [{"id": name} for name in names]
    ctx.bulk("send", items, lambda item: done.append(item["id"] * 2), key=lambda item: item["id"])
    if event.attempt == 1:
        raise RuntimeError("away")
""")
    project.publish("threads", {})
    assert [one.status for one in project.advance(timedelta(hours=1))] == ["waiting", "succeeded"]
    assert project.module.done == ["first", "a", "b", "aa", "bb"]


def test_a_task_of_a_group_sleeps(loaded: Loaded) -> None:
    project = loaded("""
import asyncio

@integration.event("group")
async def group(ctx: Context, event: Event) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ctx.sleep("a day", timedelta(days=1)))
    done.append(event.attempt)
""")
    project.publish("group", {})
    assert [one.status for one in project.advance(timedelta(days=2))] == ["waiting", "succeeded"]
    assert project.module.done == [1]


def test_a_step_that_fails_is_done_again(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("task", retry=Retry(first=1))
async def task(ctx: Context, event: Event) -> None:
    await ctx.step("once", lambda: done.append("once"))
    await ctx.step("twice", twice)

def twice():
    done.append("twice")
    if done.count("twice") < 2:
        raise RuntimeError("away")
""")
    project.publish("task", {})
    project.advance(10)
    assert project.module.done == ["once", "twice", "twice"]


def test_what_a_step_publishes_is_published_once_however_late_the_retry(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("order", retry=Retry(first=600))
async def order(ctx: Context, event: Event) -> None:
    await ctx.step("publish", ctx.publish, "booked", event.payload)
    if event.attempt == 1:
        raise RuntimeError("away")

@integration.event("booked")
async def booked(ctx: Context, event: Event) -> None:
    done.append(event.payload["id"])
""")
    project.publish("order", {"id": "A-1"})
    project.advance(timedelta(hours=1))
    assert project.module.done == ["A-1"]


def test_code_decides_that_an_event_is_rejected_or_comes_later(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("task", retry=Retry(attempts=1))
async def task(ctx: Context, event: Event) -> None:
    done.append(event.attempt)
    if event.payload == "bad":
        raise Reject("no id")
    if len(done) < 4:
        raise RetryLater(after=timedelta(minutes=5))
""")
    project.publish("task", "good")
    attempts = project.advance(timedelta(hours=1))
    assert [one.status for one in attempts] == ["waiting", "waiting", "waiting", "succeeded"]
    assert project.module.done == [1, 1, 1, 1]
    project.publish("task", "bad")
    (rejected,) = project.run_events()
    assert (rejected.status, rejected.error) == ("dead", "no id")


def test_an_event_is_for_the_user_of_the_run_that_publishes_it(loaded: Loaded) -> None:
    project = loaded("""
@integration.webhook("start")
async def start(ctx: Context, request: Request) -> None:
    await ctx.publish("task", {}, delay=30)

@integration.event("task")
async def task(ctx: Context, event: Event) -> None:
    done.append(ctx.activation.user.external_id)
""")
    project.post("/start", user="ann")
    assert project.run_events() == []
    project.advance(31)
    assert project.module.done == ["ann"]
    project.publish("task", {}, user="nobody")
    (unknown,) = project.run_events()
    assert unknown.status == "dead"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('ctx.publish("tsak", {})', "There is no task 'tsak' for events (there are: 'task')"),
        ('ctx.publish("task", object())', "object has no form in JSON"),
        ('ctx.publish("task", "x" * 5_000_000)', "at most 4,194,304 are kept"),
        ('ctx.publish("task", {}, key="k" * 501)', "The key of an event is a text of 1 to 500 characters"),
        ('ctx.publish("task", {}, id="")', "The id of an event is a text of 1 to 200 characters"),
        ('ctx.publish("task", {}, delay=timedelta(days=400))', "at most a year from now"),
        ('ctx.publish("task", {}, delay=-5)', "delay must be at least 0 seconds, not -5"),
        ('ctx.publish("task", {}, at="tomorrow")', "at is a datetime, not 'tomorrow'"),
        ('ctx.step("name", print)', "Steps, sleep and waits are for runs that are retried"),
        ('ctx.sleep("name", 1)', "Steps, sleep and waits are for runs that are retried"),
    ],
)
def test_a_mistake_is_said_in_a_sentence(loaded: Loaded, code: str, message: str) -> None:
    project = loaded(f"""
@integration.event("task")
async def task(ctx: Context, event: Event) -> None: ...

@integration.webhook("start")
async def start(ctx: Context) -> str:
    try:
        await {code}
    except Exception as error:
        return str(error)
    return "accepted"
""")
    assert message in project.post("/start").text
    assert project.waiting_events == 0


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ('event("a b")', "The event name 'a b' must be"),
        ('event("task", key="a..b")', "key names a field of the payload"),
        ('event("task", timeout=0)', "Event 'task': timeout must be from"),
        ('event("task", retry=Retry(attempts=0))', "attempts must be from 1"),
        ('event("task", retry=3)', "retry must be a Retry, such as Retry(attempts=5), not 3"),
        ('webhook("task", delivery="later")', 'must be "direct" or "queued"'),
        ('webhook("task", retry=Retry())', 'key, retry, timeout and answer need delivery="queued"'),
        ('webhook("task", delivery="queued", key="a.")', "key names a field of the payload"),
    ],
)
def test_an_option_that_cannot_be_stops_the_load(loaded: Loaded, decorator: str, message: str) -> None:
    with pytest.raises(CodeError) as raised:
        loaded(f"@integration.{decorator}\nasync def task(ctx, event): ...\n")
    assert message in str(raised.value)


def test_a_retry_waits_until_the_system_accepts_requests_again(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("task", retry=Retry(first=1))
async def task(ctx: Context, event: Event) -> None:
    (await ctx.fetch("erp", "/orders", method="POST")).raise_for_status()
    done.append("sent")
""")
    limited = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800"}
    project.connection("erp").on("POST", "/orders").answer(403, headers=limited).answer(201)
    project.publish("task", {})
    project.advance(timedelta(minutes=29))
    assert project.module.done == []
    project.advance(timedelta(minutes=2))
    assert project.module.done == ["sent"]


def test_what_an_attempt_has_published_the_next_one_does_not_publish_again(loaded: Loaded) -> None:
    project = loaded("""
fails = [True, True]

@integration.event("task", retry=Retry(first=3600))
async def task(ctx: Context, event: Event) -> None:
    for number in (1, 2, 2):
        await ctx.publish("other", {"number": number})
    if fails and fails.pop():
        raise RuntimeError("away")
    await ctx.publish("other", {"number": 3})

@integration.event("other")
async def other(ctx: Context, event: Event) -> None:
    done.append(event.payload["number"])
""")
    project.publish("task", {})
    project.advance(timedelta(hours=5))
    assert sorted(project.module.done) == [1, 2, 2, 3]


def test_a_step_whose_result_cannot_be_kept_is_not_done_again(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("task", retry=Retry(first=1))
async def task(ctx: Context, event: Event) -> None:
    await ctx.step("book", book, event.payload)

def book(payload):
    done.append("booked")
    return object() if payload == "object" else "x" * 2_000_000
""")
    for payload in ("object", "large"):
        project.publish("task", payload)
        project.advance(60)
    assert project.module.done == ["booked", "booked"]
    first, second = project.dead_letters
    assert "its result, a object, is no JSON data" in first.error
    assert "at most 1,048,576 are kept" in second.error


def test_ids_are_those_of_one_user(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("task")
async def task(ctx: Context, event: Event) -> None:
    done.append(ctx.activation.user and ctx.activation.user.external_id)
""")
    runs = [project.publish("task", {}, id="1", user=user) for user in ("ann", None, "ann")]
    project.run_events()
    assert [run is not None for run in runs] == [True, True, False]
    assert project.module.done == ["ann", None]


def test_an_event_that_got_its_key_late_is_not_taken_for_its_own_repetition(loaded: Loaded) -> None:
    project = loaded(KEYED)
    project.publish("order", {"customer": {"id": "ben"}, "number": 1}, id="1", delay=5)
    project.publish("order", {"customer": {"id": "ben"}, "number": 2}, id="2")
    project.advance(10)
    assert project.module.done == [("ben", 2), ("ben", 1)]


def test_an_event_is_not_put_off_for_ever(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("task")
async def task(ctx: Context, event: Event) -> None:
    raise RetryLater("the shop is closed", after=timedelta(days=7))
""")
    project.publish("task", {})
    attempts = project.advance(timedelta(days=60))
    assert [one.status for one in attempts] == ["waiting"] * 5 + ["dead"]
    assert "put off for 30 days" in project.dead_letters[0].error


def test_the_log_of_a_failed_attempt_begins_with_the_authors_code(loaded: Loaded) -> None:
    project = loaded(KEYED)
    project.publish("order", {"customer": {"id": "ann"}, "number": 1})
    project.run_events()
    (failed,) = [entry for entry in project.logs if entry.severity == "WARNING"]
    assert failed.error is not None
    first = next(line for line in failed.error.splitlines() if line.strip().startswith("File "))
    assert "main.py" in first


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("await cancelled()", "The code awaited something that was cancelled"),
        ("sys.exit(3)", "The code ended with SystemExit(3)"),
        ("raise ValueError('half a letter: \\ud800')", "half a letter: ?"),
    ],
)
def test_code_that_ends_in_an_odd_way_has_failed_and_others_run(
    loaded: Loaded, code: str, error: str
) -> None:
    project = loaded(f"""
import asyncio, sys

async def cancelled():
    task = asyncio.ensure_future(asyncio.sleep(10))
    task.cancel()
    await task

@integration.event("odd", retry=Retry(attempts=2, first=1))
async def odd(ctx: Context, event: Event) -> None:
    {code}

@integration.event("other")
async def other(ctx: Context, event: Event) -> None:
    done.append("other")
""")
    project.publish("odd", {})
    attempts = project.advance(60)
    project.publish("other", {})
    attempts += project.run_events()
    assert [one.status for one in attempts] == ["waiting", "dead", "succeeded"]
    assert attempts[0].error is not None
    assert error in attempts[0].error
    assert project.module.done == ["other"]


def test_headers_that_are_no_text_or_too_long_to_store_are_kept_so_far_as_they_can_be() -> None:
    headers = {"X-Odd": "a\udcffb", "X-Long": "\u00e9" * 4000, "X-Short": "berlin", "Authorization": "secret"}
    request: Any = SimpleNamespace(method="POST", raw_path="/orders", headers=headers)
    kept = kept_request(request, Redactor())
    assert kept.headers == [("X-Odd", "a?b"), ("X-Short", "berlin")]
