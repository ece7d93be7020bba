"""Follows incidents: each is reported once when it begins and once when it is over. Pure.

All state is in the status of the Notification, so a restart or another leader continues it. A message is sent only for
what the stored status holds, and its id follows from that: the same message of two leaders has one id.

- Begins: the incident is stored, reported once it has lasted ``notify_after`` seconds, and marked as reported.
- Ends: ``endedAt`` is stored. If it comes back within ``RECOVERY_SECONDS`` it goes on as the same incident. After that
  the end is reported, and the incident is removed.
- Over before it was due to be reported: it is removed without a report.
- Over before its beginning could be delivered: one message tells both.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tieline_core.resources.notifications import MAX_INCIDENTS, Incident, NotificationEvent
from tieline_operator.apply.plan import earliest
from tieline_operator.reconcilers.notification.messages import Phase, message_id

RECOVERY_SECONDS = 30.0
"""How long an incident must be over until that is reported: what comes and goes is reported once."""
GIVE_UP_SECONDS = 86_400.0
"""How long after its end an incident is kept whose messages cannot be delivered."""
ERROR_SECONDS = 30.0
"""How long an environment must be in error until it is reported: pods that are replaced come back sooner."""
DEPLOY_SECONDS = 10.0
"""How long a deploy must have failed until it is reported: what it lacks may be applied a moment later."""
_WRITTEN_SECONDS = 1.0
_NOTIFY_AFTER: Mapping[NotificationEvent, float] = {
    NotificationEvent.ENVIRONMENT_ERROR: ERROR_SECONDS,
    NotificationEvent.DEPLOY_FAILED: DEPLOY_SECONDS,
}


@dataclass(frozen=True, kw_only=True)
class Detected:
    """Something that is wrong now."""

    event: NotificationEvent
    subject: str = ""
    message: str

    @property
    def key(self) -> str:
        """Identifies it among all of an environment."""
        return f"{self.event}/{self.subject}" if self.subject else str(self.event)


@dataclass(frozen=True, kw_only=True)
class Detection:
    """All that is wrong in an environment now, as far as it is known."""

    found: Sequence[Detected] = ()
    unknown: frozenset[NotificationEvent] = frozenset()
    """Events of which nothing is known now: their incidents stay as they are."""


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What becomes of the incidents."""

    incidents: Sequence[Incident]
    due: Sequence[tuple[Incident, Phase]]
    """What is to be delivered now. Each is in the stored status already."""
    begun: Sequence[Incident] = ()
    ended: Sequence[Incident] = ()
    omitted: int = 0
    """What was found beyond the limit of the status."""
    requeue_after: float | None = None


def message_ids(uid: str, incidents: Iterable[Incident]) -> frozenset[str]:
    """The ids of all messages about these incidents."""
    return frozenset(
        message_id(uid, one, phase) for one in incidents for phase in (Phase.STARTED, Phase.RESOLVED)
    )


@dataclass
class _Follower:
    uid: str
    delivered: Mapping[str, datetime]
    now: datetime
    incidents: list[Incident] = field(default_factory=list)
    due: list[tuple[Incident, Phase]] = field(default_factory=list)
    ended: list[Incident] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)

    def follow(self, stored: Incident, present: bool | None) -> None:
        """``present``: whether it goes on; None where that is not known."""
        incident = self._with_delivery(stored)
        if self._delivered_at(stored, Phase.RESOLVED):
            return
        if present is None:
            present = incident.ended_at is None
        if present and incident.ended_at is None:
            self._continues(stored, incident)
        elif present:
            self._returns(stored, incident)
        elif incident.ended_at is None:
            self._ends(incident)
        else:
            self._is_over(stored, incident)

    def _with_delivery(self, stored: Incident) -> Incident:
        moment = None if stored.notified_at else self._delivered_at(stored, Phase.STARTED)
        return stored.model_copy(update={"notified_at": moment}) if moment else stored

    def _delivered_at(self, incident: Incident, phase: Phase) -> datetime | None:
        return self.delivered.get(message_id(self.uid, incident, phase))

    def _continues(self, stored: Incident, incident: Incident) -> None:
        self.incidents.append(incident)
        if incident.notified_at is None:
            self._when(incident.since, notify_after(incident.event), (stored, Phase.STARTED))

    def _returns(self, stored: Incident, incident: Incident) -> None:
        if self._left(incident.ended_at, RECOVERY_SECONDS) > 0:
            self._continues(stored, incident.model_copy(update={"ended_at": None}))
        else:
            # Its end is being delivered. After that it is a new incident.
            self._is_over(stored, incident)

    def _ends(self, incident: Incident) -> None:
        if incident.notified_at is None and self._left(incident.since, notify_after(incident.event)) > 0:
            return
        ended = incident.model_copy(update={"ended_at": self.now})
        self.ended.append(ended)
        self.incidents.append(ended)
        self.delays.append(RECOVERY_SECONDS)

    def _is_over(self, stored: Incident, incident: Incident) -> None:
        if self._left(incident.ended_at, GIVE_UP_SECONDS) <= 0:
            return
        self.incidents.append(incident)
        self._when(incident.ended_at, RECOVERY_SECONDS, (stored, Phase.RESOLVED))

    def _when(self, moment: datetime | None, seconds: float, message: tuple[Incident, Phase]) -> None:
        left = self._left(moment, seconds)
        if left > 0:
            self.delays.append(left)
        else:
            self.due.append(message)

    def _left(self, moment: datetime | None, seconds: float) -> float:
        return ((moment or self.now) + timedelta(seconds=seconds) - self.now).total_seconds()


def follow(
    uid: str,
    stored: Sequence[Incident],
    detection: Detection,
    *,
    delivered: Mapping[str, datetime],
    now: datetime,
) -> Followed:
    """What becomes of the ``stored`` incidents of a Notification (by its ``uid``), and what is new.

    ``delivered``: when messages were delivered, by id.
    """
    now = now.replace(microsecond=0)
    present = {one.key: one for one in detection.found}
    follower = _Follower(uid, delivered, now)
    for incident in stored:
        known = incident.event not in detection.unknown
        follower.follow(incident, incident.key in present if known else None)
    known_keys = {incident.key for incident in stored}
    # One whose end was just delivered and that is there again begins with the next reconcile.
    fresh = list(_new(present.values(), known_keys, now))
    room = MAX_INCIDENTS - len(follower.incidents)
    begun = fresh[:room]
    follower.delays += [max(_WRITTEN_SECONDS, notify_after(one.event)) for one in begun]
    if len(follower.incidents) < len(stored):
        follower.delays.append(_WRITTEN_SECONDS)
    return Followed(
        incidents=[*follower.incidents, *begun],
        due=follower.due,
        begun=begun,
        ended=follower.ended,
        omitted=len(fresh) - len(begun),
        requeue_after=earliest(*follower.delays),
    )


def notify_after(event: NotificationEvent) -> float:
    """How long an incident must last until it is reported, in seconds."""
    return _NOTIFY_AFTER.get(event, 0.0)


def _new(found: Iterable[Detected], known: Collection[str], now: datetime) -> Iterator[Incident]:
    for one in sorted(found, key=lambda each: each.key):
        if one.key not in known:
            yield Incident(
                key=one.key, event=one.event, subject=one.subject, message=one.message[:2048], since=now
            )
