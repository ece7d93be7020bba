"""Changes of connections and activations are told once each, over restarts and channels that fail."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.operator import objects as o
from tests.unit.operator.notifications.notified_cluster import NotifiedCluster
from tieline_core.credentials.refusals import ANNOTATION
from tieline_core.identity.ids import format_time, object_id
from tieline_core.kubernetes import resources as r
from tieline_core.resources.notifications import (
    APPROVAL_EVENTS,
    FAILURE_EVENTS,
    LIFECYCLE_EVENTS,
    NotificationEvent,
)
from tieline_operator.notifications.dispatcher import MAX_OF_CHANNEL
from tieline_operator.notifications.errors import DeliveryError
from tieline_operator.notifications.slack import payload as slack_payload
from tieline_operator.reconcilers.notification.ledger import packed, unpacked
from tieline_operator.reconcilers.notification.lifecycle import (
    FAILED_SECONDS,
    MAX_FOLLOWED,
    LifecycleStep,
    Observed,
    State,
    Subject,
    Tracked,
    step,
)

EVENTS = sorted(str(event) for event in LIFECYCLE_EVENTS)
ALL = frozenset(LIFECYCLE_EVENTS)


def of_user(name: str = "anns", **more: Any) -> dict[str, Any]:
    """A connection of Ann for the environment's dynamic template."""
    spec = {"endUserRef": {"name": "ann"}, "connectionTemplateRef": {"name": "shop-template"}}
    return o.connection(name, **{**spec, **more})


async def running(*objects: dict[str, Any], events: list[str] | None = None) -> NotifiedCluster:
    """An environment with a dynamic template, whose notification has been looked at."""
    there = NotifiedCluster(
        o.notification(events=EVENTS if events is None else events),
        o.template(dynamic=True),
        o.system(),
        o.end_user(),
        *objects,
    )
    there.cluster.put(r.SECRETS, o.secret("login"))
    await there.settle()
    await there.settle(60)
    return there


def put(there: NotifiedCluster, resource: Any, obj: dict[str, Any]) -> dict[str, Any]:
    """Makes an object now."""
    obj["metadata"]["creationTimestamp"] = format_time(there.loop.now)
    there.cluster.put(resource, obj)
    return obj


def ledgers(there: NotifiedCluster) -> list[str]:
    """The names of the ConfigMaps that say what was told."""
    return [name for (_, name) in there.cluster.objects[r.CONFIG_MAPS] if "-reported-" in name]


def events_of(there: NotifiedCluster) -> list[str]:
    return [str(one.event) for one in there.sent]


async def test_what_was_there_before_is_not_told() -> None:
    there = await running(of_user(), o.activation())
    await there.settle(3600)
    assert there.sent == []


async def test_a_connection_is_told_from_its_beginning_to_its_end() -> None:
    there = await running()
    connection = put(there, r.CONNECTIONS, of_user())
    await there.settle(1)
    await there.settle(600)
    assert events_of(there) == ["connection.created"]
    (message,) = there.sent
    assert message.payload() == {
        "type": "connection.created",
        "timestamp": connection["metadata"]["creationTimestamp"],
        "data": {
            "event": "connection.created",
            "organisationId": o.ORGANISATION,
            "project": {"id": message.place.project_id, "name": "Order sync"},
            "environment": {"id": message.place.environment_id, "name": "production"},
            "user": {"id": object_id(o.end_user()), "externalId": "42"},
            "connection": {
                "id": object_id(connection),
                "name": "anns",
                "systemId": object_id(o.system()),
                "connectionTemplateId": object_id(o.template()),
            },
        },
    }
    there.cluster.remove(r.SECRETS, "login")
    await there.settle(1)
    assert events_of(there) == ["connection.created"], "it may be there a moment later"
    await there.settle(FAILED_SECONDS)
    await there.settle(600)
    assert events_of(there)[1:] == ["connection.failed"]
    assert "login" in there.sent[1].payload()["data"]["message"]
    there.cluster.remove(r.END_USERS, "ann")
    there.cluster.remove(r.CONNECTIONS, "anns")
    await there.settle(1)
    await there.settle(600)
    assert events_of(there)[2:] == ["connection.deleted"]
    assert there.sent[2].payload()["data"]["user"]["externalId"] == "42", "its user is gone, too"


async def test_a_key_that_the_system_refuses_is_told_and_again_after_it_was_accepted() -> None:
    there = await running()
    put(there, r.CONNECTIONS, of_user())
    await there.settle(60)
    refused = {"status": 401, "count": 1, "since": "2026-11-25T10:00:00Z", "last": "2026-11-25T10:00:00Z"}

    async def reported(**more: str) -> None:
        annotations = {ANNOTATION: json.dumps({**refused, **more})}
        there.cluster.edited(r.CONNECTIONS, "anns")["metadata"]["annotations"] = annotations
        await there.settle(60)

    await reported()
    assert events_of(there)[1:] == ["connection.needs_authorisation"]
    assert "with 401" in there.sent[1].payload()["data"]["message"]
    await reported(accepted="2026-11-25T11:00:00Z")
    assert len(there.sent) == 2
    await reported()
    assert events_of(there)[2:] == ["connection.needs_authorisation"]


async def test_an_activation_is_told_and_the_environments_own_is_not() -> None:
    there = await running()
    activation = put(there, r.ACTIVATIONS, o.activation())
    static = put(there, r.ACTIVATIONS, o.activation("static"))
    del static["spec"]["endUserRef"]
    there.cluster.put(r.ACTIVATIONS, static)
    await there.settle(1)
    assert events_of(there) == ["activation.created"]
    assert there.sent[0].payload()["data"]["activation"] == {"id": object_id(activation)}
    there.cluster.remove(r.ACTIVATIONS, "for-ann")
    there.cluster.remove(r.ACTIVATIONS, "static")
    await there.settle(1)
    assert events_of(there) == ["activation.created", "activation.deleted"]


async def test_another_leader_continues_and_tells_nothing_twice() -> None:
    there = await running()
    put(there, r.CONNECTIONS, of_user())
    await there.settle(1)
    there.restart()
    await there.settle(600)
    there.cluster.remove(r.CONNECTIONS, "anns")
    there.restart()
    await there.settle(1)
    there.restart()
    await there.settle(600)
    assert events_of(there) == ["connection.created", "connection.deleted"]


async def test_while_the_channel_fails_nothing_is_lost() -> None:
    there = await running()
    there.failing = DeliveryError("Refused", "503")
    put(there, r.CONNECTIONS, of_user())
    put(there, r.ACTIVATIONS, o.activation())
    await there.settle(60)
    there.restart()
    await there.settle(600)
    assert there.sent == []
    there.failing = None
    await there.settle(3600)
    assert sorted(events_of(there)) == ["activation.created", "connection.created"]


async def test_the_same_message_of_two_leaders_has_one_id() -> None:
    there = await running()
    put(there, r.CONNECTIONS, of_user())
    await there.settle(1)
    for name in ledgers(there):  # as if the leader had died before it wrote down what it told
        there.cluster.remove(r.CONFIG_MAPS, name)
    there.restart()
    await there.settle(600)
    first, second = there.sent
    assert first.id == second.id


async def test_many_at_once_are_all_told_and_one_ledger_is_left() -> None:
    there = await running()
    for number in range(MAX_OF_CHANNEL + 5):
        put(there, r.CONNECTIONS, of_user(f"c-{number}"))
    for _ in range(6):
        await there.settle(5)
    assert sorted(one.tracked.name for one in there.sent) == sorted(  # type: ignore[attr-defined]
        f"c-{number}" for number in range(MAX_OF_CHANNEL + 5)
    )
    assert len(ledgers(there)) == 1


async def test_they_are_told_to_those_alone_who_name_them() -> None:
    there = await running(events=[])
    put(there, r.CONNECTIONS, of_user())
    await there.settle(60)
    assert there.sent == []
    assert ledgers(there) == []
    there.edit(r.NOTIFICATIONS, "tell-ops", events=["connection.deleted"])
    await there.settle(1)
    put(there, r.ACTIVATIONS, o.activation())
    put(there, r.CONNECTIONS, of_user("other"))
    await there.settle(1)
    there.cluster.remove(r.CONNECTIONS, "other")
    there.cluster.remove(r.ACTIVATIONS, "for-ann")
    await there.settle(1)
    assert events_of(there) == ["connection.deleted"]
    there.edit(r.NOTIFICATIONS, "tell-ops", events=["run_dead"])
    await there.settle(1)
    assert ledgers(there) == []
    assert "lifecycleSince" not in there.notification()["status"]


async def test_people_can_read_it() -> None:
    there = await running()
    put(there, r.CONNECTIONS, of_user())
    await there.settle(1)
    (message,) = there.sent
    assert message.title == 'Connection created "42": Order sync / production'
    assert "User: 42" in message.text
    assert "Connection created" in str(slack_payload(message)["text"])


def test_without_events_nothing_but_what_is_wrong_is_reported() -> None:
    named = LIFECYCLE_EVENTS | APPROVAL_EVENTS
    assert frozenset(NotificationEvent) == FAILURE_EVENTS | named
    assert not FAILURE_EVENTS & named


BEGIN = datetime(2026, 11, 25, 12, tzinfo=UTC)


def _tracked(number: int, **more: Any) -> dict[str, Any]:
    return {
        "subject": Subject.CONNECTION,
        "id": f"01JD3Y8B2CZX9KQW8T2V4N{number:04d}",
        "created": BEGIN + timedelta(seconds=number),
        "user_id": "u",
        "external_id": f"customer-{number}",
        **more,
    }


texts = st.text(max_size=40)
followed = st.builds(
    Tracked,
    subject=st.sampled_from(Subject),
    id=st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26),
    created=st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)).map(
        lambda moment: moment.replace(microsecond=0)
    ),
    state=st.sampled_from(State),
    name=texts,
    user_id=texts,
    external_id=texts,
    system_id=texts,
    template_id=texts,
)


@given(st.lists(followed, max_size=20))
def test_a_ledger_comes_back_as_it_was(entries: list[Tracked]) -> None:
    ledger = {one.key: one for one in entries}
    assert unpacked({"reported": base64.b64encode(packed(ledger)).decode()}) == ledger


@pytest.mark.parametrize("data", [{}, {"reported": "?"}, {"reported": "eJyrBgABMgCW"}, {"reported": ""}])
def test_a_ledger_that_cannot_be_read_is_empty(data: dict[str, str]) -> None:
    assert unpacked(data) == {}


moves = st.lists(
    st.tuples(
        st.sampled_from(["make", "break", "mend", "remove", "restart"]), st.integers(0, 3), st.booleans()
    ),
    max_size=30,
)


@given(moves)
def test_whatever_happens_each_object_is_told_in_order_and_once(given: list[tuple[str, int, bool]]) -> None:
    """The receiver hears created, then failures, then deleted of each; the last state is known in the end."""
    there: dict[int, Observed] = {}
    made = 0
    ledger: dict[str, Tracked] = {}
    delivered: dict[str, datetime] = {}
    told: list[tuple[str, str, str]] = []
    now = BEGIN + timedelta(hours=1)

    def look(*, deliver: bool) -> None:
        nonlocal ledger
        found = step("uid", ledger, there.values(), events=ALL, since=BEGIN, delivered=delivered, now=now)
        ledger = dict(found.ledger)
        for change in found.due if deliver else ():
            if change.id not in delivered:
                told.append((change.tracked.id, str(change.event), change.id))
                delivered[change.id] = now

    for move, slot, deliver in given:
        now += timedelta(minutes=1)
        if move == "make" and slot not in there:
            made += 1
            there[slot] = Observed(**_tracked(made, created=now, since=now))
        elif move in ("break", "mend") and slot in there:
            state = State.FAILED if move == "break" else State.FINE
            old = there[slot]
            if old.state is not state:
                there[slot] = Observed(**{**vars(old), "state": state, "since": now - timedelta(seconds=30)})
        elif move == "remove":
            there.pop(slot, None)
        elif move == "restart":
            look(deliver=True)
            delivered.clear()  # another leader: all that was delivered is in the ledger, or told again
            continue
        look(deliver=deliver)
    for _ in range(4):
        now += timedelta(minutes=1)
        look(deliver=True)
    for identifier in {one for one, _, _ in told}:
        events = [event for one, event, _ in told if one == identifier]
        distinct = list(dict.fromkeys(events))
        assert distinct[0] == "connection.created"
        assert "connection.deleted" not in events[:-1] or set(
            events[events.index("connection.deleted") :]
        ) == {"connection.deleted"}
    assert {key: one.state for key, one in ledger.items()} == {one.key: one.state for one in there.values()}


def test_of_more_than_are_followed_the_oldest_are() -> None:
    crowd = [Observed(**_tracked(number, since=BEGIN)) for number in range(MAX_FOLLOWED + 7)]
    found = step("uid", {}, crowd, events=ALL, since=BEGIN + timedelta(days=1), delivered={}, now=BEGIN)
    assert (len(found.ledger), found.omitted, found.due) == (MAX_FOLLOWED, 7, [])


@pytest.mark.parametrize(
    ("events", "looks"), [(ALL, (0, 1)), (ALL - {NotificationEvent.CONNECTION_CREATED}, (1,))]
)
def test_one_that_fails_before_its_creation_was_delivered_is_looked_at_again_in_time(
    events: frozenset[NotificationEvent], looks: tuple[int, ...]
) -> None:
    """No event of the connection comes after the delivery that would have it looked at."""
    one = Observed(**_tracked(0, since=BEGIN, state=State.FAILED))
    ledger: dict[str, Tracked] = {}
    delivered: dict[str, datetime] = {}

    def look(seconds: float) -> LifecycleStep:
        now = BEGIN + timedelta(seconds=seconds)
        since = BEGIN - timedelta(hours=1)
        found = step("uid", ledger, [one], events=events, since=since, delivered=delivered, now=now)
        ledger.update(found.ledger)
        delivered.update({change.id: now for change in found.due})
        return found

    found = [look(seconds) for seconds in looks][-1]
    assert (found.due, found.requeue_after) == ([], FAILED_SECONDS - 1)
    assert [change.event for change in look(FAILED_SECONDS).due] == [NotificationEvent.CONNECTION_FAILED]
