"""An incident is told once when it begins and once when it is over, whatever restarts in between."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.unit.operator.objects import NOW
from tieline_core.resources.notifications import MAX_INCIDENTS, Incident, NotificationEvent
from tieline_operator.reconcilers.notification.incidents import (
    ERROR_SECONDS,
    GIVE_UP_SECONDS,
    RECOVERY_SECONDS,
    Detected,
    Detection,
    Followed,
    follow,
)
from tieline_operator.reconcilers.notification.messages import Phase, message_id

UID = "a-notification"
DEAD = Detected(event=NotificationEvent.RUN_DEAD, message="an event was given up")
ERROR = Detected(event=NotificationEvent.ENVIRONMENT_ERROR, message="nothing serves")


class Operator:
    """Reconciles again and again: only the stored incidents outlive ``restart``."""

    def __init__(self) -> None:
        self.now = NOW
        self.stored: list[Incident] = []
        self.delivered: dict[str, datetime] = {}
        self.sent: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.reachable = True

    def reconcile(self, *found: Detected, unknown: frozenset[NotificationEvent] = frozenset()) -> Followed:
        followed = follow(
            UID,
            self.stored,
            Detection(found=found, unknown=unknown),
            delivered=self.delivered,
            now=self.now,
        )
        for incident, phase in followed.due:
            assert incident in self.stored, "only what is stored may be told"
            identifier = message_id(UID, incident, phase)
            if self.reachable and identifier not in self.delivered:
                self.delivered[identifier] = self.now
                self.sent.append((incident.key, str(phase)))
                self.ids.append(identifier)
        # As it is written and read again.
        self.stored = [Incident.model_validate(one.to_dict()) for one in followed.incidents]
        return followed

    def settle(self, *found: Detected) -> None:
        for _ in range(4):
            self.reconcile(*found)

    def after(self, seconds: float, *found: Detected) -> None:
        self.now += timedelta(seconds=seconds)
        self.settle(*found)

    def restart(self) -> None:
        self.delivered = {}


@pytest.fixture
def operator() -> Operator:
    return Operator()


def test_it_is_told_once_while_it_goes_on(operator: Operator) -> None:
    operator.settle(DEAD)
    operator.after(3600, DEAD)
    operator.after(86400, DEAD)
    assert operator.sent == [("run_dead", "started")]


def test_it_is_stored_before_it_is_reported(operator: Operator) -> None:
    assert operator.reconcile(DEAD).due == []
    assert operator.sent == []
    assert operator.reconcile(DEAD).due != []


def test_its_end_is_told_once_and_then_it_is_forgotten(operator: Operator) -> None:
    operator.settle(DEAD)
    operator.settle()
    operator.after(RECOVERY_SECONDS)
    operator.after(3600)
    assert operator.sent == [("run_dead", "started"), ("run_dead", "resolved")]
    assert operator.stored == []


@pytest.mark.parametrize("moments", [{1}, {2}, {3}, {1, 2, 3}])
def test_a_restart_tells_nothing_again(operator: Operator, moments: set[int]) -> None:
    operator.settle(DEAD)
    if 1 in moments:
        operator.restart()
    operator.after(60, DEAD)
    operator.settle()
    if 2 in moments:
        operator.restart()
    operator.after(RECOVERY_SECONDS)
    if 3 in moments:
        operator.restart()
    operator.settle()
    assert operator.sent == [("run_dead", "started"), ("run_dead", "resolved")]


def test_a_leader_that_dies_before_the_status_is_written_repeats_the_message_under_the_same_id(
    operator: Operator,
) -> None:
    operator.reconcile(DEAD)
    before = list(operator.stored)
    operator.reconcile(DEAD)
    operator.stored = before
    operator.restart()
    operator.settle(DEAD)
    first, second = operator.ids
    assert first == second


def test_one_that_comes_back_soon_is_the_same(operator: Operator) -> None:
    operator.settle(DEAD)
    for _ in range(5):
        operator.after(5)
        operator.after(5, DEAD)
    assert operator.sent == [("run_dead", "started")]
    operator.settle()
    operator.after(RECOVERY_SECONDS)
    assert operator.sent[1:] == [("run_dead", "resolved")]


def test_one_that_comes_back_after_its_end_was_told_is_another(operator: Operator) -> None:
    operator.settle(DEAD)
    operator.settle()
    operator.after(RECOVERY_SECONDS)
    operator.after(1, DEAD)
    phases = [phase for _, phase in operator.sent]
    assert phases == ["started", "resolved", "started"]
    assert len(set(operator.ids)) == 3


def test_an_environment_that_is_in_error_for_a_moment_is_told_to_nobody(operator: Operator) -> None:
    operator.settle(ERROR)
    operator.after(ERROR_SECONDS / 2, ERROR)
    operator.settle()
    operator.after(3600)
    assert operator.sent == []
    assert operator.stored == []


def test_an_environment_that_stays_in_error_is_reported(operator: Operator) -> None:
    followed = operator.reconcile(ERROR)
    assert followed.requeue_after is not None
    assert followed.requeue_after <= ERROR_SECONDS
    operator.after(ERROR_SECONDS, ERROR)
    assert operator.sent == [("environment_error", "started")]


def test_what_is_over_before_it_could_be_delivered_is_told_in_one_message(operator: Operator) -> None:
    operator.reachable = False
    operator.settle(DEAD)
    operator.settle()
    operator.after(RECOVERY_SECONDS)
    operator.reachable = True
    operator.settle()
    assert operator.sent == [("run_dead", "resolved")]
    assert operator.stored == []


def test_what_can_never_be_delivered_is_given_up(operator: Operator) -> None:
    operator.reachable = False
    operator.settle(DEAD)
    operator.settle()
    operator.after(GIVE_UP_SECONDS)
    assert operator.stored == []


def test_it_goes_on_while_nothing_is_known_of_it(operator: Operator) -> None:
    operator.settle(DEAD)
    operator.now += timedelta(hours=1)
    operator.reconcile(unknown=frozenset({NotificationEvent.RUN_DEAD}))
    assert [one.ended_at for one in operator.stored] == [None]


def test_several_are_told_apart_by_what_they_are_about(operator: Operator) -> None:
    connections = [
        Detected(event=NotificationEvent.AUTHORISATION_NEEDED, subject=name, message="refused")
        for name in ("erp", "shop")
    ]
    operator.settle(*connections)
    operator.settle(connections[0])
    operator.after(RECOVERY_SECONDS, connections[0])
    assert operator.sent == [
        ("authorisation_needed/erp", "started"),
        ("authorisation_needed/shop", "started"),
        ("authorisation_needed/shop", "resolved"),
    ]


def test_the_status_has_a_bound(operator: Operator) -> None:
    many = [
        Detected(event=NotificationEvent.AUTHORISATION_NEEDED, subject=f"c{number:03}", message="refused")
        for number in range(MAX_INCIDENTS + 10)
    ]
    followed = operator.reconcile(*many)
    assert (len(followed.incidents), followed.omitted) == (MAX_INCIDENTS, 10)


def test_the_phases_of_one_incident_have_different_ids() -> None:
    incident = Incident(key="k", event=NotificationEvent.RUN_DEAD, message="m", since=NOW)
    assert message_id(UID, incident, Phase.STARTED) != message_id(UID, incident, Phase.RESOLVED)
    assert message_id("another", incident, Phase.STARTED) != message_id(UID, incident, Phase.STARTED)
