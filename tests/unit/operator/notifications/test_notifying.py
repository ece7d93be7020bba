"""From an environment's trouble to a message, and from its end to another one, over restarts and failing channels."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from ulid import ULID

from tests.unit.operator import objects as o
from tests.unit.operator.notifications.messages_made import message
from tests.unit.operator.notifications.notified_cluster import NotifiedCluster, signing_secret
from tests.unit.operator.reconcile_loop import crashed
from tieline_core.credentials.refusals import ANNOTATION
from tieline_core.kubernetes import Change
from tieline_core.kubernetes import resources as r
from tieline_core.resources.notification_channels import TEST_ANNOTATION, TEST_LASTS
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.apply.plan import Key
from tieline_operator.cache.event_mapping import keys_to_enqueue
from tieline_operator.notifications.dispatcher import MAX_OF_CHANNEL
from tieline_operator.notifications.errors import DeliveryError, PartlyDeliveredError
from tieline_operator.reconcilers.notification.detection import DeadRun, RunCounts
from tieline_operator.reconcilers.notification.incidents import (
    DEPLOY_SECONDS,
    ERROR_SECONDS,
    RECOVERY_SECONDS,
)
from tieline_operator.reconcilers.notification.schedules import missed_schedules

BROKEN = {"files": [{"filename": "main.py", "content": "def ("}]}
GOOD = {"files": [{"filename": "main.py", "content": "print('two')\n"}]}


async def running(*objects: dict[str, Any], **options: Any) -> NotifiedCluster:
    there = NotifiedCluster(*objects, **options)
    await there.settle()
    there.loop.kubelet()
    await there.settle()
    assert there.loop.environment()["status"] == "running"
    return there


async def test_a_failed_deploy_is_told_once_and_its_end_once() -> None:
    there = await running()
    assert there.loop.ready(r.NOTIFICATIONS, "tell-ops")[:2] == ("True", "Watching")
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    await there.settle(600)
    assert there.told == ["deploy_failed.started"]
    (message,) = there.sent
    (version,) = {one["subject"] for one in there.incidents()}
    assert message.title == f'Deploy failed "{version}": Order sync / production'
    assert "keeps serving" in message.detail
    assert there.incidents()[0]["notifiedAt"]

    there.edit(r.PROJECTS, "order-sync", source=GOOD)
    await there.settle()
    there.loop.kubelet()
    await there.settle()
    assert there.told == ["deploy_failed.started"]
    await there.settle(RECOVERY_SECONDS)
    await there.settle(600)
    assert there.told == ["deploy_failed.started", "deploy_failed.resolved"]
    assert there.incidents() == []


async def test_a_failed_deploy_of_another_version_is_notified_too() -> None:
    there = await running()
    for content in ("def (", "class ("):
        there.edit(r.PROJECTS, "order-sync", source={"files": [{"filename": "main.py", "content": content}]})
        await there.settle()
        await there.settle(DEPLOY_SECONDS)
    await there.settle(RECOVERY_SECONDS)
    await there.settle(600)
    assert there.told == ["deploy_failed.started", "deploy_failed.started", "deploy_failed.resolved"]
    first, second, resolved = there.sent
    assert first.subject != second.subject
    assert (resolved.subject, resolved.thread) == (first.subject, first.id)
    assert [one["subject"] for one in there.incidents()] == [second.subject]


async def test_a_failed_deploy_is_over_once_the_next_one_serves() -> None:
    there = await running()
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    there.edit(r.PROJECTS, "order-sync", source=GOOD)
    await there.settle()
    await there.settle(RECOVERY_SECONDS)
    await there.settle(600)
    assert there.told == ["deploy_failed.started"], "the rollout is under way"
    there.loop.kubelet()
    await there.settle()
    await there.settle(RECOVERY_SECONDS)
    assert there.told == ["deploy_failed.started", "deploy_failed.resolved"]


async def test_an_error_is_no_news_while_another_version_starts() -> None:
    there = NotifiedCluster()
    await there.settle()
    there.loop.kubelet(ready=False, status=crashed())
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    there.edit(r.PROJECTS, "order-sync", source=GOOD)
    await there.settle()
    await there.settle(ERROR_SECONDS)
    await there.settle(600)
    assert there.told == ["deploy_failed.started"]


async def test_a_deploy_that_lacks_what_is_applied_a_moment_later_is_not_told() -> None:
    """A person or a GitOps tool applies one object after the other; a Project may come before what its code uses."""
    there = await running()
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS - 1)
    there.edit(r.PROJECTS, "order-sync", source=GOOD)
    await there.settle()
    there.loop.kubelet()
    await there.settle()
    await there.settle(600)
    assert there.told == []
    assert there.incidents() == []


async def test_restarts_repeat_nothing() -> None:
    there = await running()
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    for _ in range(3):
        await there.settle()
        await there.settle(DEPLOY_SECONDS)
        there.restart()
    there.edit(r.PROJECTS, "order-sync", source=GOOD)
    await there.settle()
    there.loop.kubelet()
    for seconds in (0, RECOVERY_SECONDS, 0, 60):
        await there.settle(seconds)
        there.restart()
    assert there.told == ["deploy_failed.started", "deploy_failed.resolved"]


async def test_another_leader_delivers_what_was_not_delivered() -> None:
    there = await running()
    there.failing = DeliveryError("Unreachable", "hooks.example cannot be connected to")
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    there.failing = None
    there.restart()
    await there.settle()
    assert there.told == ["deploy_failed.started"]


async def test_a_first_deploy_that_fails_is_not_told_as_an_environment_in_error_too() -> None:
    there = NotifiedCluster(o.project(source=BROKEN))
    await there.settle()
    await there.settle(600)
    assert there.loop.environment()["status"] == "error"
    assert there.told == ["deploy_failed.started"]


async def test_a_version_that_served_and_crashes_is_an_environment_in_error() -> None:
    there = await running()
    there.loop.kubelet(ready=False, status=crashed())
    await there.settle()
    assert there.loop.environment()["status"] == "error"
    assert there.told == []
    await there.settle(ERROR_SECONDS)
    assert there.told == ["environment_error.started"]
    there.loop.kubelet()
    await there.settle()
    await there.settle(RECOVERY_SECONDS)
    assert there.told == ["environment_error.started", "environment_error.resolved"]


async def test_an_error_after_a_failed_deploy_is_told_as_well() -> None:
    there = await running()
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    await there.settle(3600)
    there.loop.kubelet(ready=False, status=crashed())
    await there.settle()
    await there.settle(ERROR_SECONDS)
    assert there.told == ["deploy_failed.started", "environment_error.started"]


async def test_only_the_events_that_were_chosen_are_told() -> None:
    there = await running(o.notification(events=["run_dead"]))
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    await there.settle(600)
    assert there.told == []


class Counts:
    def __init__(self) -> None:
        self.found: RunCounts | None = None

    def counts(self, namespace: str, environment_id: str) -> RunCounts | None:
        return self.found


NAMED = RunCounts(last_dead=DeadRun(id="01RUN", task="order.created", error="KeyError"))


@pytest.mark.parametrize(
    ("known", "detail"),
    [
        ([NAMED] * 5, "At least 10 events could not be processed and will not be tried again."
         " The last one is of order.created (run 01RUN): KeyError"),
        ([None, RunCounts(), NAMED, NAMED, NAMED], "At least 100 events could not be processed and will not"
         " be tried again. The last one is of order.created (run 01RUN): KeyError"),
        ([None, RunCounts(), RunCounts(), RunCounts(), RunCounts()], "At least 100 events could not be"
         " processed and will not be tried again."),
    ],
    ids=["known at once", "read later", "never read"],
)  # fmt: skip
async def test_dead_letters_are_told_until_there_are_none(known: list[RunCounts | None], detail: str) -> None:
    runs = Counts()
    there = await running(runs=runs)
    steps = ((10, 0), (100, 149), (100, 1), (None, 0), (None, RECOVERY_SECONDS))
    for (letters, seconds), runs.found in zip(steps, known, strict=True):
        project = there.cluster.edited(r.PROJECTS, "order-sync")
        (environment,) = project["status"]["environments"]
        environment.pop("deadLetters", None)
        if letters:
            environment["deadLetters"] = letters
        # The Project's own reconcile would set it to what the engine says.
        for _ in range(3):
            await there.loop.once(r.NOTIFICATIONS, "tell-ops")
            await there.clock.pass_by(0)
        await there.loop.once(r.NOTIFICATIONS, "tell-ops")
        there.loop.now = there.loop.now.fromtimestamp(
            there.loop.now.timestamp() + seconds, there.loop.now.tzinfo
        )
        for _ in range(3):
            await there.loop.once(r.NOTIFICATIONS, "tell-ops")
            await there.clock.pass_by(0)
    assert there.told == ["run_dead.started", "run_dead.resolved"]
    assert there.sent[0].detail == detail


async def test_a_connection_that_was_refused_is_told_with_its_name() -> None:
    there = NotifiedCluster(o.system(), o.connection("login"), o.template(connectionRef={"name": "login"}))
    connection = there.cluster.edited(r.CONNECTIONS, "login")
    connection["spec"]["credentials"][0]["expiresAt"] = "2026-11-01T00:00:00Z"
    await there.settle()
    there.sent = [one for one in there.sent if one.event is NotificationEvent.AUTHORISATION_NEEDED]
    (message,) = there.sent
    assert message.subject == "login"
    assert message.command == "kubectl -n acme describe connection.tieline.dev login"


async def test_a_connection_whose_requests_are_refused_is_told_until_one_is_accepted() -> None:
    there = NotifiedCluster(o.system(), o.connection("login"), o.template(connectionRef={"name": "login"}))
    await there.settle()
    refused = {"status": 401, "count": 7, "since": "2026-11-25T10:00:00Z", "last": "2026-11-25T10:04:00Z"}
    connection = there.cluster.edited(r.CONNECTIONS, "login")
    connection["metadata"]["annotations"] = {ANNOTATION: json.dumps(refused)}
    await there.settle()
    told = [one for one in there.sent if one.event is NotificationEvent.AUTHORISATION_NEEDED]
    assert [one.subject for one in told] == ["login"]
    assert "at least 7 requests with 401" in told[0].detail


def asks_for_a_test(there: NotifiedCluster, identifier: str) -> None:
    channel = there.cluster.edited(r.NOTIFICATION_CHANNELS, "ops")
    channel["metadata"]["annotations"] = {TEST_ANNOTATION: identifier}


async def test_a_test_message_is_sent_once() -> None:
    there = await running()
    identifier = str(ULID.from_datetime(there.loop.now))
    asks_for_a_test(there, identifier)
    await there.settle()
    assert [(one.event, one.id) for one in there.sent] == [("test", f"msg_{identifier.lower()}")]
    (sent,) = there.sent
    assert sent.title == 'Test of the channel "Operations"'
    assert sent.payload()["type"] == "test"
    assert there.channel()["status"]["lastDeliveredAt"]
    there.restart()
    await there.settle(10)
    assert len(there.sent) == 1, "another leader does not send it again"
    asks_for_a_test(there, str(ULID.from_datetime(there.loop.now)))
    await there.settle()
    assert len(there.sent) == 2


async def test_a_test_message_that_fails_says_why_and_is_given_up() -> None:
    there = await running()
    there.failing = DeliveryError("Refused", "It answers 403; correct the URL")
    asks_for_a_test(there, str(ULID.from_datetime(there.loop.now)))
    await there.settle()
    assert there.loop.ready(r.NOTIFICATION_CHANNELS, "ops")[1] == "Refused"
    await there.settle(TEST_LASTS.total_seconds())
    there.failing = None
    await there.settle(600)
    assert there.sent == []


@pytest.mark.parametrize(
    "identifier", ["", "now", "7ZZZZZZZZZ0000000000000000", "00000000000000000000000000"]
)
async def test_an_annotation_that_asks_for_no_test_sends_nothing(identifier: str) -> None:
    there = await running()
    asks_for_a_test(there, identifier)
    await there.settle()
    assert there.sent == []
    assert there.loop.ready(r.NOTIFICATION_CHANNELS, "ops")[1] == "Valid"


async def test_runs_that_fail_above_the_rate_are_told() -> None:
    runs = Counts()
    there = await running(o.notification(failureRate={"percent": 50, "minimumRuns": 4}), runs=runs)
    for ended, failed in ((3, 3), (4, 2)):
        runs.found = RunCounts(ended=ended, failed=failed)
        await there.settle(60)
    assert there.told == []
    runs.found = RunCounts(ended=4, failed=3)
    await there.settle(60)
    assert there.told == ["failure_rate.started"]
    assert "3 of 4 runs failed" in there.sent[0].detail
    runs.found = None
    await there.settle(600)
    assert there.told == ["failure_rate.started"], "not known is not over"
    runs.found = RunCounts(ended=4, failed=0)
    await there.settle(60)
    await there.settle(RECOVERY_SECONDS)
    assert there.told == ["failure_rate.started", "failure_rate.resolved"]


class Records:
    """What the engine has of schedules."""

    def __init__(self, **values: dict[str, Any]) -> None:
        self.found: dict[str, bytes] | None = None
        if values:
            self.put(**values)

    def put(self, **values: dict[str, Any]) -> None:
        """What pods have written down about schedules."""
        self.found = {name: json.dumps(value).encode() for name, value in values.items()}

    def records(self, namespace: str, environment_id: str) -> dict[str, bytes] | None:
        return self.found


async def test_a_missed_schedule_is_reported_by_its_name() -> None:
    records = Records()
    there = await running(schedules=records)
    record = {"settled": "2026-11-21T12:10:00+00:00", "times": "*/10 * * * * Europe/Berlin"}
    # Of code of before: this version has never run it.
    old = {"settled": "2026-11-20T12:00:00+00:00", "times": "*/10 * * * * UTC"}
    records.put(nightly=record, removed=old)
    await there.settle(24 * 60)
    assert there.told == [], "12:24 is not late"
    await there.settle(2 * 60)
    assert there.told == ["schedule_missed.started"]
    assert there.sent[0].title == 'Schedule missed "nightly": Order sync / production'
    assert "was due at 2026-11-21T12:20:00Z" in there.sent[0].detail
    records.put(nightly={**record, "settled": "2026-11-21T12:26:00+00:00"}, removed=old)
    await there.settle(60)
    await there.settle(RECOVERY_SECONDS)
    assert there.told == ["schedule_missed.started", "schedule_missed.resolved"]


async def test_a_paused_schedule_misses_nothing() -> None:
    record = {"settled": "2026-11-21T12:10:00+00:00", "times": "*/10 * * * * UTC"}
    there = await running(schedules=Records(nightly=record, hourly=record))
    paused = [{"name": "production", "version": "latest", "pausedSchedules": ["nightly"]}]
    there.edit(r.PROJECTS, "order-sync", environments=paused)
    await there.settle()
    there.loop.kubelet()
    await there.settle(60 * 60)
    assert there.told == ["schedule_missed.started"]
    assert 'Schedule missed "hourly"' in there.sent[0].title


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, True),
        ({"times": "0 3 * * * UTC"}, False),
        ({"sweep": {"due": "2026-11-21T12:20:00+00:00", "holder": "a-pod"}}, False),
        ({"sweep": {"due": "2026-11-21T12:20:00+00:00", "holder": ""}}, True),
        ({"sweep": "x"}, False),
        ({"settled": "yesterday"}, False),
        ({"settled": "2026-11-21T12:10:00"}, False),
        ({"times": "61 * * * * UTC"}, False),
        ({"times": "* * * * * ../../etc/passwd"}, False),
        ({"times": 7}, False),
    ],
)
def test_what_pods_have_written_about_a_schedule(changes: dict[str, Any], missed: bool) -> None:
    value = {"settled": "2026-11-21T12:10:00+00:00", "times": "*/10 * * * * UTC", **changes}
    now = o.NOW + timedelta(minutes=30)
    records = {"nightly": json.dumps(value).encode(), "torn": b"{", "odd": b"[]"}
    assert list(missed_schedules(records, deployed_at=o.NOW, now=now)) == (["nightly"] if missed else [])


async def test_unknown_schedules_begin_and_end_no_incident() -> None:
    records = Records()
    there = await running(schedules=records)
    late = {"settled": "2026-11-21T12:10:00+00:00", "times": "*/10 * * * * UTC"}
    await there.settle(26 * 60)
    assert there.told == [], "nothing is known until the engine has answered"
    records.put(nightly=late)
    await there.settle(60)
    assert there.told == ["schedule_missed.started"]
    records.found = None
    await there.settle(600)
    assert there.told == ["schedule_missed.started"], "not known is not over"
    records.put(nightly={**late, "settled": "2026-11-21T12:50:00+00:00"})
    await there.settle(60)
    await there.settle(RECOVERY_SECONDS)
    assert there.told == ["schedule_missed.started", "schedule_missed.resolved"]


async def test_a_suspended_environment_misses_nothing() -> None:
    late = {"settled": "2026-11-21T12:10:00+00:00", "times": "*/10 * * * * UTC"}
    there = await running(schedules=Records(nightly=late))
    there.edit(
        r.PROJECTS,
        "order-sync",
        environments=[{"name": "production", "version": "latest", "suspended": True}],
    )
    await there.settle()
    there.loop.kubelet()
    await there.settle(3600)
    assert there.told == []


async def test_a_failing_channel_is_a_condition_and_recovers() -> None:
    there = await running()
    there.failing = DeliveryError("Refused", "hooks.example answered 500; look at the receiver's log")
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    status, reason, message = there.loop.ready(r.NOTIFICATION_CHANNELS, "ops")
    assert (status, reason) == ("False", "Refused")
    assert "receiver's log" in message
    assert there.loop.ready(r.NOTIFICATIONS, "tell-ops")[1] == "ChannelNotReady"
    assert there.counted("failed") == 1
    since = there.channel()["status"]["deliveryFailure"]["since"]
    await there.settle(30)
    assert there.counted("failed") >= 2
    assert there.channel()["status"]["deliveryFailure"]["since"] == since

    there.restart()
    there.failing = None
    await there.loop.once(r.NOTIFICATION_CHANNELS, "ops")
    assert there.loop.ready(r.NOTIFICATION_CHANNELS, "ops")[1] == "Refused", "a restart is no delivery"
    await there.settle()
    assert there.loop.ready(r.NOTIFICATION_CHANNELS, "ops")[:2] == ("True", "Valid")
    assert there.channel()["status"]["lastDeliveredAt"]
    assert there.told == ["deploy_failed.started"]


async def test_a_message_that_reached_only_some_is_not_repeated_and_the_channel_says_so() -> None:
    there = await running()
    there.failing = PartlyDeliveredError(
        "RecipientsRefused", "mail.example refuses 1 of 3 recipients; correct to"
    )
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    assert there.loop.ready(r.NOTIFICATION_CHANNELS, "ops")[1] == "RecipientsRefused"
    assert there.channel()["status"]["lastDeliveredAt"]
    for _ in range(5):
        await there.settle(600)
    assert len(there.secrets) == 1, "it was sent once"


async def test_a_corrected_secret_is_tried_at_once() -> None:
    there = await running()
    there.failing = DeliveryError("Refused", "hooks.example answered 401")
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    for seconds in (0, 10, 100, 1000):
        await there.settle(seconds)
    there.failing = None
    secret = signing_secret("whsec_YW5vdGhlci1vbmUtYW5vdGhlci1vbmU=", version="7")
    change = Change(old=there.cluster[r.SECRETS].get(o.NAMESPACE, "signing"), new=secret)
    there.cluster.put(r.SECRETS, secret)
    assert Key("NotificationChannel", o.NAMESPACE, "ops") in keys_to_enqueue(there.cluster, r.SECRETS, change)
    await there.settle()
    assert there.told == ["deploy_failed.started"]
    assert there.secrets[-1] == "whsec_YW5vdGhlci1vbmUtYW5vdGhlci1vbmU="
    assert there.loop.ready(r.NOTIFICATION_CHANNELS, "ops")[1] == "Valid"


async def test_an_unexpected_error_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    there = await running()
    there.failing = RuntimeError("whsec_very-secret")  # type: ignore[assignment]
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    assert there.loop.ready(r.NOTIFICATION_CHANNELS, "ops")[1] == "DeliveryFailed"
    assert "very-secret" not in str(there.cluster.objects) + caplog.text + str(there.cluster.posted)


async def test_a_replica_that_may_not_lead_sends_nothing() -> None:
    there = await running()
    there.leads = False
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    assert there.told == []


async def test_what_a_deleted_notification_had_to_tell_is_dropped() -> None:
    there = await running()
    there.failing = DeliveryError("Unreachable", "…")
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    there.cluster.remove(r.NOTIFICATIONS, "tell-ops")
    there.failing = None
    await there.settle(600)
    assert there.told == []
    assert len(there.dispatcher) == 0


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        ({"webhook": {"url": "https://hooks.svc/x", "secretRef": {"name": "signing"}}}, "AddressRefused"),
        ({"webhook": {"url": "http://10.0.0.1/x", "secretRef": {"name": "signing"}}}, "AddressRefused"),
        ({"webhook": {"url": "https://hooks.example", "secretRef": {"name": "gone"}}}, "SecretNotFound"),
        ({"type": "slack", "webhook": None, "slack": {"secretRef": {"name": "signing"}}}, "SecretKeyMissing"),
        (
            {"type": "email", "webhook": None,
             "email": {"host": "127.0.0.1", "from": "t@a.example", "to": ["o@a.example"]}},
            "AddressRefused",
        ),
    ],
)  # fmt: skip
async def test_a_channel_that_cannot_work_says_why(channel: dict[str, Any], reason: str) -> None:
    there = NotifiedCluster(o.notification_channel(**channel))
    await there.settle()
    assert there.loop.ready(r.NOTIFICATION_CHANNELS, "ops")[:2] == ("False", reason)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"projectRef": {"name": "gone"}}, "ProjectNotFound"),
        ({"environment": "staging"}, "EnvironmentNotFound"),
        ({"channelRef": {"name": "gone"}}, "NotificationChannelNotFound"),
    ],
)
async def test_a_notification_about_nothing_says_so(changed: dict[str, Any], reason: str) -> None:
    there = NotifiedCluster(o.notification(**changed))
    await there.settle()
    assert there.loop.ready(r.NOTIFICATIONS, "tell-ops")[:2] == ("False", reason)


async def test_incidents_are_kubernetes_events() -> None:
    there = await running()
    there.edit(r.PROJECTS, "order-sync", source=BROKEN)
    await there.settle()
    await there.settle(DEPLOY_SECONDS)
    there.edit(r.PROJECTS, "order-sync", source=GOOD)
    await there.settle()
    there.loop.kubelet()
    await there.settle()
    events = [
        (one["type"], one["reason"])
        for one in there.cluster.posted
        if one["regarding"]["kind"] == "Notification"
    ]
    assert ("Warning", "DeployFailed") in events
    assert ("Normal", "DeployFailedResolved") in events
    assert events.count(("Warning", "DeployFailed")) == 1


async def test_a_change_of_a_projects_state_concerns_its_notifications() -> None:
    there = await running()
    old = there.cluster[r.PROJECTS].get(o.NAMESPACE, "order-sync")
    environment = {**old["status"]["environments"][0], "deployFailure": "VersionRefused"}
    new = {**old, "status": {**old["status"], "environments": [environment]}}
    keys = keys_to_enqueue(there.cluster, r.PROJECTS, Change(old=old, new=new))
    assert keys == {
        Key("Notification", o.NAMESPACE, "tell-ops"),
        Key("Environment", o.NAMESPACE, "order-sync.production"),
    }
    assert keys_to_enqueue(there.cluster, r.PROJECTS, Change(old=old, new=dict(old))) == set()


async def test_a_channel_that_fails_leaves_room_for_others() -> None:
    there = NotifiedCluster()
    known: list[str] = []

    def many(channel: str, count: int) -> None:
        owner = Key("Notification", o.NAMESPACE, f"of-{channel}")
        found = [
            replace(
                message(), id=f"{channel}-{number}", channel=Key("NotificationChannel", o.NAMESPACE, channel)
            )
            for number in range(count)
        ]
        there.dispatcher.deliver(owner, found, known=known)

    many("broken", 3 * MAX_OF_CHANNEL)
    assert len(there.dispatcher) == MAX_OF_CHANNEL
    many("other", 2)
    assert len(there.dispatcher) == MAX_OF_CHANNEL + 2
    many("broken", 0)
    assert len(there.dispatcher) == 2
