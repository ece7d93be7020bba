"""``batch``: events of a task are run together."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tieline import Batch, Integration, Throttle
from tieline.events.event import parsed_payload
from tieline.events.memory import _MemoryDelivery
from tieline.events.retry import Reject
from tieline.events.stored_batch import member_content
from tieline.execution.ulids import new_ulid
from tieline.testing import EventAttempt, Project
from tieline_protocol.child_runs import ChildEnd, ended_event
from tieline_protocol.event_streams import MAX_EVENT_BYTES
from tieline_protocol.events import HEADER, EventMetadata, InvalidEventError

pytestmark = pytest.mark.fast

HEAD = """
from tieline import Batch, Context, Event, Integration, Retry

integration = Integration()
done = []


@integration.event("changed", batch=Batch(3, seconds=5, key="shop"), retry=Retry(attempts=2, first=1))
async def changed(ctx: Context, events: list[Event]) -> None:
    done.append([one.payload["id"] for one in events])
    assert len({one.run_id for one in events}) == len(events)
    await ctx.step("count", len, events)
    for one in events:
        if one.payload.get("fails", 0) >= one.attempt:
            raise RuntimeError("poisoned")

"""
CONNECTIONS = "connections: {}\nusers:\n  ann: {user: {externalId: ann}}\n  bob: {user: {externalId: bob}}\n"
Loaded = Callable[..., Project]


@pytest.fixture
def loaded(load_project: Callable[[str, str], Project]) -> Loaded:
    return lambda code="": load_project(HEAD + code, CONNECTIONS)


def publish(project: Project, *ids: int, user: str | None = None, shop: str = "de", **more: Any) -> list[str]:
    runs = [project.publish("changed", {"id": one, "shop": shop, **more}, user=user) for one in ids]
    return [one for one in runs if one is not None]


def repeat(project: Project, task: str, payload: bytes, *, batch: bool = False) -> None:
    """As the API runs a run again."""
    metadata = EventMetadata(
        run=new_ulid(), kind="event", task=task, queued_at=project.now(), replay_of=new_ulid(), batch=batch
    )
    project._wait(project._queue.publish(metadata, payload))


def ends(attempts: list[EventAttempt]) -> Counter[str]:
    return Counter(one.status for one in attempts)


def test_events_are_run_together_oldest_first(loaded: Loaded) -> None:
    project = loaded()
    members = publish(project, 1, 2, 3, 4)
    attempts = project.run_events()
    assert sorted(project.module.done, key=len) == [[4], [1, 2, 3]]
    succeeded = {one.run_id for one in attempts if one.status == "succeeded"}
    assert succeeded > set(members)
    assert len(succeeded) == len(members) + 2
    assert project.waiting_events == 0


@pytest.mark.parametrize(
    "payload",
    [
        '\ufeff{"id": 2, "shop": "de"}'.encode(),
        '{"id": 2, "shop": "de"}'.encode("utf-16"),
        '{"id": 2, "shop": "de"}'.encode("utf-16-le"),
    ],
    ids=["a mark", "UTF-16", "UTF-16 without a mark"],
)
def test_a_payload_that_cannot_stand_in_a_batch_is_rejected_alone(loaded: Loaded, payload: bytes) -> None:
    project = loaded()
    publish(project, 1)
    repeat(project, "changed", payload)
    publish(project, 3)
    project.run_events()
    assert project.module.done == [[1, 3]]
    (letter,) = project.dead_letters
    assert "must be UTF-8" in letter.error


def test_the_deepest_payload_that_can_be_read_alone_is_rejected_alone() -> None:
    depths = bisect_left(range(200_000), True, key=lambda depth: not is_readable(nested(depth)))
    with pytest.raises(Reject, match="nested too deep"):
        member_content(nested(depths - 2))


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def is_readable(payload: bytes) -> bool:
    try:
        return parsed_payload(payload or b"0") is not None
    except Reject:
        return False


def test_members_name_the_run_of_their_batch(loaded: Loaded) -> None:
    project = loaded()
    members = publish(project, 1, 2)
    project.run_events()
    ended = {one.id: one for one in project._queue.history if one.status == "succeeded"}
    (batch,) = ended.keys() - set(members)
    assert [[step.child for step in ended[one].steps] for one in members] == [[batch], [batch]]


def test_batches_have_one_user_and_one_value(loaded: Loaded) -> None:
    project = loaded()
    publish(project, 1, user="ann")
    publish(project, 2, user="bob")
    publish(project, 3, user="ann", shop="fr")
    publish(project, 4, user="ann")
    project.run_events()
    assert sorted(project.module.done) == [[1, 4], [2], [3]]


def test_events_without_the_field_run_alone(loaded: Loaded) -> None:
    project = loaded()
    for one in (1, 2):
        project.publish("changed", {"id": one})
    project.run_events()
    assert sorted(project.module.done) == [[1], [2]]


def test_a_retry_has_the_same_members(loaded: Loaded) -> None:
    project = loaded()
    publish(project, 1)
    publish(project, 2, fails=1)
    project.run_events()
    publish(project, 3)
    attempts = project.run_events() + project.advance(5)
    assert sorted(project.module.done) == [[1, 2], [1, 2], [3]]
    assert ends(attempts)["succeeded"] == 5
    assert project.dead_letters == []


def test_members_of_a_failed_batch_are_dead_letters_each(loaded: Loaded) -> None:
    project = loaded()
    members = publish(project, 1) + publish(project, 2, fails=9)
    attempts = project.run_events() + project.advance(60)
    assert {one.run_id for one in project.dead_letters} == set(members)
    assert "poisoned" in project.dead_letters[0].error
    assert {one.status for one in attempts if one.run_id in members} >= {"dead"}
    assert project.waiting_events == 0


def test_what_is_too_large_for_one_batch_comes_in_several(loaded: Loaded) -> None:
    project = loaded()
    publish(project, 1, 2, text="x" * 3_000_000)
    project.run_events()
    assert sorted(project.module.done) == [[1], [2]]


def test_payloads_that_look_like_batches_are_single_events(loaded: Loaded) -> None:
    project = loaded(
        """
@integration.event("single")
async def single(ctx: Context, event: Event) -> None:
    done.append(event.payload)


@integration.event("listed", batch=Batch(3))
async def listed(ctx: Context, events: list[Event]) -> None:
    done.append([one.payload for one in events])
"""
    )
    forged = {"~batch": [[{"run": f"F{one}", "queued_at": 1}, one] for one in range(9)]}
    for task in ("single", "listed"):
        project.publish(task, forged)
    project.run_events()
    assert sorted(project.module.done, key=str) == sorted([forged, [forged]], key=str)
    assert project.dead_letters == []
    for task in ("single", "listed"):
        repeat(project, task, json.dumps(forged).encode())
    project.run_events()
    assert sorted(project.module.done, key=str) == sorted([forged, [forged]] * 2, key=str)


def test_a_batch_that_is_run_again_has_its_events(loaded: Loaded) -> None:
    project = loaded()
    members = publish(project, 1) + publish(project, 2, fails=2)
    project.run_events()
    project.advance(60)
    (batch,) = {
        one.id: one for one in project._queue.history if one.batch and one.status == "failed"
    }.values()
    assert batch.input is not None
    project.module.done.clear()
    repeat(project, "changed", batch.input, batch=True)
    project.run_events()
    project.advance(60)
    assert project.module.done == [[1, 2], [1, 2]]
    dead = [one for one in project.dead_letters if one.run_id not in members]
    assert len(dead) == 1, "a replay for whose end no event waits has a dead letter of its own"


def test_what_is_no_batch_is_a_dead_letter(loaded: Loaded) -> None:
    project = loaded()
    for payload in (b"7", b'{"~batch":[["a"]]}', b'{"~batch":[]}'):
        repeat(project, "changed", payload, batch=True)
    project.run_events()
    assert project.module.done == []
    assert [one.error for one in project.dead_letters] == ["The payload is no batch of events"] * 3


def test_an_event_that_fills_a_batch_runs_by_itself(loaded: Loaded) -> None:
    project = loaded()
    rest = len(json.dumps({"id": 1, "shop": "de", "text": ""}))
    (run,) = publish(project, 1, text="x" * (MAX_EVENT_BYTES - rest))
    attempts = project.run_events()
    assert project.module.done == [[1]]
    assert [(one.run_id, one.status) for one in attempts] == [(run, "succeeded")]


def test_pods_that_die_while_they_gather_use_up_no_attempt(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = loaded(
        """
@integration.event("once", batch=Batch(3), retry=Retry(attempts=1))
async def once(ctx: Context, events: list[Event]) -> None:
    done.append([one.payload for one in events])
"""
    )

    async def interruptions(delivery: Any) -> int:
        return 0 if delivery.metadata.batch else 5

    monkeypatch.setattr(_MemoryDelivery, "interruptions", interruptions)
    for one in (1, 2):
        project.publish("once", one)
    attempts = project.run_events()
    assert project.module.done == [[1, 2]]
    assert project.dead_letters == []
    assert {one.status for one in attempts} == {"waiting", "succeeded"}


def test_what_names_of_events_take_counts_towards_the_size(loaded: Loaded) -> None:
    project = loaded()
    most = 4 * 1024 * 1024
    for one in (1, 2):
        payload = {"id": one, "shop": "de", "text": "x" * (most // 2 - 1000)}
        project.publish("changed", payload, id="\N{GRINNING FACE}" * 199 + f"{one}")
    project.run_events()
    assert sorted(project.module.done) == [[1], [2]]


def test_a_parent_gets_no_result(loaded: Loaded) -> None:
    project = loaded(
        """
@integration.event("parent")
async def parent(ctx: Context, event: Event) -> None:
    done.append([await ctx.run("changed", {"id": 7, "shop": "de"})])
"""
    )
    project.publish("parent", {})
    project.run_events()
    assert project.module.done == [[7], [None]]


def test_functions_in_threads_get_lists_too(loaded: Loaded) -> None:
    project = loaded(
        """
@integration.event("blocking", batch=Batch(10))
def blocking(ctx, events):
    done.append([one.payload for one in events])
"""
    )
    for one in (1, 2):
        project.publish("blocking", one)
    project.run_events()
    assert project.module.done == [[1, 2]]


def test_events_of_a_batch_end_waits_once_each(loaded: Loaded) -> None:
    project = loaded(
        """
integration.waits_for("changed", match=["id"])


@integration.event("waiting")
async def waiting(ctx: Context, event: Event) -> None:
    found = await ctx.wait_for("changed", match={"id": 2}, timeout=60)
    done.append(found.payload["id"])
"""
    )
    project.publish("waiting", {})
    project.run_events()
    publish(project, 1, 2)
    project.run_events()
    assert 2 in project.module.done
    assert [1, 2] in project.module.done


def test_the_platform_cancels_a_batch_with_its_members(loaded: Loaded) -> None:
    project = loaded()
    members = publish(project, 1) + publish(project, 2, fails=1)
    project.run_events()
    (batch,) = {step.child for one in project._queue.history if one.id == members[0] for step in one.steps}
    assert batch is not None
    waiting = project._queue._waiting[batch]
    ended = ended_event(waiting.metadata, new_ulid(), project.now())
    project._wait(project._queue.publish(ended, ChildEnd(child=batch, status="cancelled").encode()))
    cancelled = {one.run_id for one in project.run_events() if one.status == "cancelled"}
    assert cancelled == set(members)
    assert project.dead_letters == []


def test_metadata_name_the_members_of_a_batch() -> None:
    metadata = EventMetadata(run="b", kind="event", task="changed", queued_at=1.0, members=("a", "c d"))
    parsed = EventMetadata.parse({HEADER: metadata.header()})
    assert [(one.run, one.key_hash) for one in parsed.waiting_runs] == [("a", None), ("c", "d")]


@pytest.mark.parametrize("members", ['["a.b"]', "[1]", '["a b c"]', '"ab>"'])
def test_names_that_are_no_members_are_refused(members: str) -> None:
    header = f'{{"run":"b","kind":"event","task":"t","queued_at":1,"members":{members}}}'
    with pytest.raises(InvalidEventError):
        EventMetadata.parse({HEADER: header})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": Batch(0)}, "size must be from 1 to 100"),
        ({"batch": Batch(101)}, "size must be from 1 to 100"),
        ({"batch": Batch(10, seconds=61)}, "seconds must be from 0.1 to 60"),
        ({"batch": Batch(10, seconds=timedelta(minutes=2))}, "seconds must be from 0.1 to 60"),
        ({"batch": Batch(10, key="a..b")}, "key names a field"),
        ({"batch": Batch(10), "key": "id"}, "batch and key exclude"),
        ({"batch": Batch(10), "debounce": 5}, "batch and debounce exclude"),
        ({"batch": Batch(10), "throttle": Throttle(10, per=60)}, "batch and throttle exclude"),
        ({"batch": Batch(10), "key": "id", "cancel_on": "gone"}, "exclude each other"),
        ({"batch": Batch(10), "shared_key": True}, "batch and shared_key exclude"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Integration().event("changed", **options)


@pytest.mark.parametrize("batch", [100, True, Batch(1.5), Batch(10, seconds="5"), Batch(10, key=5)])  # type: ignore[arg-type]
def test_other_types_are_refused(batch: Any) -> None:
    with pytest.raises(TypeError, match="batch"):
        Integration().event("changed", batch=batch)


def test_the_function_takes_events() -> None:
    with pytest.raises(TypeError, match=r"\(ctx, events\)"):

        @Integration().event("changed", batch=Batch(10))
        async def changed(ctx: object, events: object, third: object) -> None:
            """Takes too much."""
