"""What becomes of the connections and activations of an environment: each change is reported once. Pure.

What was reported is in a ledger: for each object the state that the receiver knows, and what a message about its
deletion needs. An object that the ledger does not have is new, one that is in the ledger alone was deleted. A change
enters the ledger once its message was delivered, so a restart or another leader continues. The id of a message follows
from the object and the change: the same message of two leaders has one id.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from tieline_core.resources.notifications import NotificationEvent

MAX_FOLLOWED = 5000
"""Connections and activations of an environment that are followed: the oldest."""
MAX_DUE = 100
"""Messages at a time; the rest follows when these are delivered."""
FAILED_SECONDS = 10.0
"""How long a connection must have failed until it is reported: what it lacks may be applied a moment later."""
_ID_DIGITS = 32


class State(StrEnum):
    """What a receiver knows of an object."""

    FINE = "fine"
    FAILED = "failed"
    UNAUTHORISED = "unauthorised"


class Subject(StrEnum):
    """What is followed."""

    CONNECTION = "connection"
    ACTIVATION = "activation"


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """A connection or an activation."""

    subject: Subject
    id: str
    created: datetime
    state: State = State.FINE
    name: str = ""
    """The connection's name for people."""
    user_id: str = ""
    external_id: str = ""
    """The user's id in the customer's application; empty where it belongs to no user."""
    system_id: str = ""
    template_id: str = ""

    @property
    def key(self) -> str:
        """Identifies it in the ledger."""
        return f"{self.subject}/{self.id}"


@dataclass(frozen=True, kw_only=True)
class Observed(Tracked):
    """One that is there now."""

    since: datetime
    """Since when its state is as it is."""
    message: str = ""
    """Why it failed."""


@dataclass(frozen=True, kw_only=True)
class LifecycleChange:
    """A change to report."""

    id: str
    """Of the message."""
    event: NotificationEvent
    tracked: Tracked
    """As the receiver knows it once this is delivered."""
    at: datetime
    message: str = ""


Ledger = Mapping[str, Tracked]


@dataclass(frozen=True, kw_only=True)
class LifecycleStep:
    """What to report now, and the ledger without it."""

    ledger: Ledger
    due: Sequence[LifecycleChange] = ()
    known: frozenset[str] = frozenset()
    """Ids of messages whose delivery matters until the ledger is written."""
    omitted: int = 0
    """Objects beyond the limit."""
    requeue_after: float | None = None


_CREATED = {
    Subject.CONNECTION: NotificationEvent.CONNECTION_CREATED,
    Subject.ACTIVATION: NotificationEvent.ACTIVATION_CREATED,
}
_DELETED = {
    Subject.CONNECTION: NotificationEvent.CONNECTION_DELETED,
    Subject.ACTIVATION: NotificationEvent.ACTIVATION_DELETED,
}
_TURNED = {
    State.FAILED: NotificationEvent.CONNECTION_FAILED,
    State.UNAUTHORISED: NotificationEvent.CONNECTION_NEEDS_AUTHORISATION,
}


def step(
    uid: str,
    stored: Ledger,
    observed: Iterable[Observed],
    *,
    events: frozenset[NotificationEvent],
    since: datetime,
    delivered: Mapping[str, datetime],
    now: datetime,
) -> LifecycleStep:
    """What to report of the objects that are there, where the receiver knows what is ``stored``.

    ``uid`` is the Notification's, ``events`` are those that it reports. What was there before ``since`` is known
    without a report. ``delivered``: when messages were delivered, by id.
    """
    there = sorted(observed, key=lambda one: (one.created, one.id))
    ledger: dict[str, Tracked] = dict(stored)
    due: list[LifecycleChange] = []
    known: set[str] = set()
    delays: list[float] = []
    for one in there[:MAX_FOLLOWED]:
        change, wait = _change(uid, stored.get(one.key), one, since=since, now=now)
        if change is None and one.key not in stored:
            ledger[one.key] = _known(one)  # it was there before
        # One that had failed before its creation was delivered is looked at again: no event of it is to come.
        while change and _settle(change, ledger, due, known, events=events, delivered=delivered):
            change, wait = _change(uid, ledger[one.key], one, since=since, now=now)
        if wait is not None:
            delays.append(wait)
    names = {one.key for one in there}
    for key, old in stored.items():
        if key not in names:
            change = _reported(uid, _DELETED[old.subject], old, stamp=old.created, at=now)
            _settle(change, ledger, due, known, events=events, delivered=delivered, deleted=True)
    return LifecycleStep(
        ledger=ledger,
        due=due[:MAX_DUE],
        known=frozenset(known),
        omitted=max(0, len(there) - MAX_FOLLOWED),
        requeue_after=min(delays, default=None),
    )


def _change(
    uid: str, reported: Tracked | None, one: Observed, *, since: datetime, now: datetime
) -> tuple[LifecycleChange | None, float | None]:
    """What has become of an object, and when to look again."""
    known = _known(one) if reported is None else _completed(_known(one), reported)
    if reported is None:
        if one.created < since:
            return None, None
        fresh = replace(known, state=State.FINE)
        return _reported(uid, _CREATED[one.subject], fresh, stamp=one.created, at=one.created), None
    if reported == known:
        return None, None
    event = _TURNED.get(one.state) if one.state is not reported.state else None
    if event is None:
        return LifecycleChange(id="", event=_CREATED[one.subject], tracked=known, at=now), None
    if event is NotificationEvent.CONNECTION_FAILED:
        left = (one.since + timedelta(seconds=FAILED_SECONDS) - now).total_seconds()
        if left > 0:
            return None, left
    return _reported(uid, event, known, stamp=one.since, at=one.since, message=one.message), None


def _settle(
    change: LifecycleChange,
    ledger: dict[str, Tracked],
    due: list[LifecycleChange],
    known: set[str],
    *,
    events: frozenset[NotificationEvent],
    delivered: Mapping[str, datetime],
    deleted: bool = False,
) -> bool:
    """A change that is reported, or that nobody needs to hear of, enters the ledger; any other is due.

    Returns whether it is in the ledger.
    """
    if change.id:
        known.add(change.id)
    if change.id and change.event in events and change.id not in delivered:
        due.append(change)
        return False
    if deleted:
        ledger.pop(change.tracked.key, None)
    else:
        ledger[change.tracked.key] = change.tracked
    return True


def _known(one: Tracked) -> Tracked:
    names = Tracked.__dataclass_fields__
    return Tracked(**{name: getattr(one, name) for name in names})


def _completed(one: Tracked, reported: Tracked) -> Tracked:
    """With what cannot be found any more, because a user, a system or a template is gone."""
    texts = ("name", "user_id", "external_id", "system_id", "template_id")
    return replace(one, **{name: getattr(one, name) or getattr(reported, name) for name in texts})


def _reported(
    uid: str,
    event: NotificationEvent,
    tracked: Tracked,
    *,
    stamp: datetime,
    at: datetime,
    message: str = "",
) -> LifecycleChange:
    text = f"{uid}\n{event}\n{tracked.key}\n{int(stamp.timestamp())}"
    identifier = f"msg_{hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]}"
    return LifecycleChange(id=identifier, event=event, tracked=tracked, at=at, message=message)
