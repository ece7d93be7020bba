"""``ctx.tag``: runs of every kind carry business ids, within bounds and without secrets."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline.execution.tags import add_tag
from tieline.testing import Project
from tieline_protocol.run_records import RunRecord, decode, encode
from tieline_protocol.run_tags import MAX_TAGS, is_name, is_value, valid_tags

pytestmark = pytest.mark.fast

CODE = """
from tieline import Context, Event, Integration, Request, ScheduledRun, SyncContext, SyncRequest

integration = Integration()


@integration.webhook("orders")
async def orders(ctx: Context, request: Request) -> None:
    order = await request.json()
    ctx.tag("order", order["number"])
    ctx.tag("paid", True)
    ctx.tag("lines", 3)
    async def later() -> None:
        ctx.tag("order", "later")
        ctx.tag("mail", "sent")
    def in_thread() -> None:
        ctx.tag("thread", "yes")
    ctx.background(later)
    ctx.background(in_thread)
    ctx.tag("after", "the background work")
    if order.get("secret"):
        ctx.tag("key", order["secret"])


@integration.webhook("plain")
def plain(ctx: SyncContext, request: SyncRequest) -> None:
    ctx.tag("order", request.json()["number"])
    def later() -> None:
        ctx.tag("mail", "sent")
    ctx.background(later)


@integration.webhook("untagged")
async def untagged(ctx: Context) -> None: ...


@integration.webhook("fails")
async def fails(ctx: Context, request: Request) -> None:
    ctx.tag("order", "N-1")
    raise ValueError("no order")


@integration.schedule("nightly", "0 0 * * *")
async def nightly(ctx: Context, run: ScheduledRun) -> None:
    ctx.tag("day", f"{run.due:%F}")


@integration.event("order.created")
async def order_created(ctx: Context, event: Event) -> None:
    ctx.tag("order", event.payload["number"])
    if event.attempt == 1:
        ctx.tag("first", "yes")
        ctx.tag("attempt", 1)
        raise ValueError("the shop is away")
    ctx.tag("attempt", event.attempt)
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "main.py").write_text(dedent(CODE))
    (tmp_path / "connections.yaml").write_text("{}")
    with Project(tmp_path) as found:
        yield found


def tags(project: Project) -> list[tuple[str, str, dict[str, str]]]:
    return [(one.kind, one.task, dict(one.tags)) for one in project.tagged_runs]


def test_a_webhook_and_its_background_work_are_runs_with_tags_of_their_own(project: Project) -> None:
    answer = project.post("/orders", json={"number": "N-1101"})
    of_webhook = {"order": "N-1101", "paid": "True", "lines": "3"}
    found = {task: found for _, task, found in tags(project)}
    assert found == {
        "orders": {**of_webhook, "after": "the background work"},
        "later": {**of_webhook, "order": "later", "mail": "sent"},
        "in_thread": {**of_webhook, "thread": "yes"},
    }
    assert [one.run_id for one in project.tagged_runs if one.kind == "webhook"] == [answer.execution_id]


def test_plain_functions_and_schedules_and_failed_runs_have_tags(project: Project) -> None:
    project.post("/plain", json={"number": "N-2"})
    assert tags(project) == [
        ("webhook", "plain", {"order": "N-2"}),
        ("background", "later", {"order": "N-2", "mail": "sent"}),
    ]
    project.run_schedule("nightly")
    assert project.post("/fails", json={}).status == 500
    project.post("/untagged")
    kinds = [(kind, task) for kind, task, _ in tags(project)[2:]]
    assert kinds == [("schedule", "nightly"), ("webhook", "fails")]


def test_a_retried_run_has_the_tags_of_all_its_attempts(project: Project) -> None:
    run = project.publish("order.created", {"number": "N-3"})
    attempts = [*project.run_events(), *project.advance(timedelta(hours=1))]
    assert [(one.status, dict(one.tags)) for one in attempts] == [
        ("waiting", {"order": "N-3", "first": "yes", "attempt": "1"}),
        ("succeeded", {"order": "N-3", "attempt": "2"}),
    ]
    (found,) = project.tagged_runs
    assert (found.run_id, found.kind, found.tags) == (
        run,
        "event",
        {"order": "N-3", "first": "yes", "attempt": "2"},
    )


def test_secrets_in_values_are_masked(project: Project) -> None:
    project.connection(
        "shop",
        credentials=[
            {
                "id": "k",
                "type": "string",
                "authScheme": {"id": "k", "type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}},
                "data": {"value": "an-api-key-of-the-shop"},
            }
        ],
    )
    project.post("/orders", json={"number": "N-4", "secret": "with an-api-key-of-the-shop in it"})
    found = next(one for one in project.tagged_runs if one.task == "orders")
    assert found.tags["key"] == "with *** in it"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Order", "N-1", "lower-case letter"),
        ("", "N-1", "lower-case letter"),
        ("a" * 41, "N-1", "lower-case letter"),
        (7, "N-1", "not a int"),
        ("order", None, "not None"),
        ("order", 1.5, "not a float"),
        ("order", ["N-1"], "not a list"),
        ("order", "", "has 0 characters"),
        ("order", "very secret " * 20, "has 240 characters"),
        ("order", "N-1\n", "control characters"),
        ("order", "\ud800", "control characters"),
    ],
)
def test_what_does_not_fit_is_refused_without_its_value(name: Any, value: Any, message: str) -> None:
    tags: dict[str, str] = {"other": "stays"}
    with pytest.raises(ValueError, match=message) as refused:
        add_tag(tags, name, value)
    assert tags == {"other": "stays"}
    assert "very secret" not in str(refused.value)


def test_a_run_has_ten_tags_and_may_change_each() -> None:
    tags: dict[str, str] = {}
    for number in range(MAX_TAGS):
        add_tag(tags, f"t{number}", number)
    with pytest.raises(ValueError, match="at most 10 tags"):
        add_tag(tags, "another", "x")
    add_tag(tags, "t3", "changed")
    assert (len(tags), tags["t3"]) == (10, "changed")


@given(
    name=st.one_of(st.text(max_size=45), st.from_regex(r"[a-z][a-z0-9_-]{0,39}", fullmatch=True)),
    value=st.one_of(st.text(max_size=220), st.integers(), st.booleans(), st.none(), st.floats()),
)
def test_what_is_taken_is_what_records_may_have(name: str, value: Any) -> None:
    tags: dict[str, str] = {}
    fits = is_name(name) and isinstance(value, str | int) and is_value(str(value))
    try:
        add_tag(tags, name, value)
    except ValueError:
        assert not fits
    else:
        assert fits
        assert valid_tags(tags) == tags == {name: str(value)}
        record = RunRecord(
            id="r", kind="event", task="t", status="queued", attempt=0, queued_at=1, at=1, tags=tags
        )
        assert decode(encode([record]))[0].tags == tags


@settings(max_examples=40)
@given(
    found=st.recursive(
        st.one_of(st.none(), st.text(), st.integers()), lambda of: st.dictionaries(st.text(), of)
    )
)
def test_of_a_record_only_the_tags_that_do_not_fit_are_lost(found: Any) -> None:
    record = {
        "id": "r",
        "kind": "event",
        "task": "t",
        "status": "queued",
        "attempt": 0,
        "queued_at": 1,
        "at": 1,
    }
    tags = {"order": "N-1", **found} if isinstance(found, dict) else found
    (read,) = decode(json.dumps([{**record, "tags": tags}]).encode())
    assert read.id == "r"
    assert len(read.tags) <= MAX_TAGS
    assert all(is_name(name) and is_value(value) for name, value in read.tags.items())
    if isinstance(found, dict) and "order" not in found:
        assert read.tags["order"] == "N-1"
