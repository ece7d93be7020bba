"""The status table of the design: each row is what a user reads in `kubectl get project`."""

# ruff: noqa: E501  (a table reads best with a case a line)

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.operator.objects import NOW
from tieline_core.identity.ids import format_time
from tieline_core.resources.projects import EnvironmentStatus
from tieline_operator.reconcilers.project.environment_status import (
    ActualEnvironment,
    DesiredEnvironment,
    compute_status,
    status_of,
)
from tieline_operator.workload.pods import Failure, Pod

COMPLETE = {
    "metadata": {"generation": 1},
    "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1},
}
QUOTA = {
    "metadata": {"generation": 1},
    "status": {
        "conditions": [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "message": 'pods "order-sync-abc12" is forbidden: exceeded quota: small',
            }
        ]
    },
}
LATE = {
    "metadata": {"generation": 1},
    "status": {
        "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
    },
}
CRASH = Failure("Crashed", "The code crashed with exit code 1; its last lines: boom")


def pod(
    version: str = "v2", *, revision: str = "r2", ready: bool = False, age: float = 10, **more: Any
) -> Pod:
    values = {"finished": False, "failure": None, "unschedulable": None, **more}
    return Pod(
        version=version, revision=revision, created=NOW - timedelta(seconds=age), ready=ready, **values
    )


def old_pod(**more: Any) -> Pod:
    return pod("v1", revision="r1", ready=True, age=900, **more)


def waiting_for_room(seconds: float) -> Pod:
    return pod(
        unschedulable=(NOW - timedelta(seconds=seconds), "0/1 nodes are available: 1 Insufficient cpu.")
    )


@dataclass
class Case:
    says: str
    state: str
    ready: str
    reason: str
    before: str | None = None
    pods: tuple[Pod, ...] = ()
    deployment: Any = field(default_factory=lambda: {"metadata": {"generation": 1}})
    desired: dict[str, Any] = field(default_factory=dict)
    message: str = ""
    failed_version: str = "v2"
    """The version that the status before names."""


REFUSED = Failure("VersionRefused", "version v2 is refused: main.py:1: bad")

CASES = [
    Case("never deployed", "draft", "True", "Draft", desired={"draft": True}, deployment=None),
    Case("first start, nothing serves yet", "draft", "Unknown", "Starting", pods=(pod(),), message="starting version v2"),
    Case("first start, its Service is awaited", "draft", "Unknown", "Starting", desired={"waiting": "its Service is being made"}, deployment=None, message="Service"),
    Case("first start crashes", "error", "False", "Crashed", pods=(pod(failure=CRASH),), message="boom"),
    Case("first deploy is refused", "error", "False", "VersionRefused", desired={"problem": REFUSED}, deployment=None, message="main.py:1"),
    Case("serves what is asked for", "running", "True", "Running", "draft", (pod(ready=True),), COMPLETE),
    Case("rollout: the old one serves", "running", "Unknown", "RollingOut", "running", (old_pod(), pod()), message="v1 keeps serving"),
    Case("rollout: both serve", "running", "Unknown", "RollingOut", "running", (old_pod(), pod(ready=True)), message="v1 keeps serving"),
    Case("rollout: the new one crashes", "running", "False", "Crashed", "running", (old_pod(), pod(failure=CRASH)), message="v1 keeps serving"),
    Case("rollout: the new one is refused", "running", "False", "VersionRefused", "running", (old_pod(),), desired={"problem": REFUSED}, message="v1 keeps serving"),
    Case("rollout: the new one finds no node", "running", "False", "Unschedulable", "running", (old_pod(), waiting_for_room(31)), message="Insufficient cpu"),
    Case("a change is not applied yet", "running", "Unknown", "RollingOut", "running", (pod(ready=True),), COMPLETE, desired={"in_sync": False}),
    Case("one of two crashes", "running", "False", "Crashed", "running", (pod(ready=True), pod(failure=CRASH)), desired={"replicas": 2}, message="only 1 of 2"),
    Case("pods of the same version with other settings crash", "running", "False", "Crashed", "running", (pod("v2", revision="r1", ready=True), pod(failure=CRASH)), message="production: new pods do not start, and earlier ones keep serving: "),
    Case("it serves, and cannot use a connection", "running", "False", "ConnectionNotReady", "running", (pod(ready=True),), COMPLETE, desired={"connection_problem": Failure("ConnectionNotReady", "no Secret")}, message="no Secret"),
    Case("suspended it needs no connection", "suspended", "True", "Suspended", "running", desired={"suspended": True, "connection_problem": Failure("ConnectionNotReady", "no Secret")}),
    Case("one of two is still starting", "running", "Unknown", "RollingOut", "running", (pod(ready=True), pod()), desired={"replicas": 2}),
    Case("crashed after it served", "error", "False", "Crashed", "running", (pod(failure=CRASH),), message="boom"),
    Case("its only pod is replaced", "error", "Unknown", "NothingServes", "running", (pod(),), message="nothing serves"),
    Case("still crashing", "error", "False", "Crashed", "error", (pod(failure=CRASH),)),
    Case("a new version starts after another one failed", "error", "Unknown", "Starting", "error", (pod("v1", revision="r1", failure=CRASH), pod()), failed_version="v1"),
    Case("a new version is checked after another one was refused", "error", "Unknown", "Starting", "error", desired={"waiting": "version v2 is being checked"}, failed_version="v1", message="being checked"),
    Case("a new version fails like the one before", "error", "False", "Crashed", "error", (pod(failure=CRASH),), failed_version="v1"),
    Case("the version that failed starts again", "error", "Unknown", "Starting", "error", (pod(),)),
    Case("recovered by itself", "running", "True", "Running", "error", (pod(ready=True),), COMPLETE),
    Case("quota leaves no room for pods", "error", "False", "PodsRefused", "draft", (), QUOTA, message="exceeded quota"),
    Case("never becomes ready", "error", "False", "StartTimeout", "draft", (pod(),), LATE, message="in time"),
    Case("waits for a node, not for long yet", "draft", "Unknown", "Starting", "draft", (waiting_for_room(10),)),
    Case("waits for a node for long", "error", "False", "Unschedulable", "draft", (waiting_for_room(31),)),
    Case("told to stop, pods are left", "running", "Unknown", "Stopping", "running", (pod(ready=True),), desired={"suspended": True}),
    Case("told to stop, nothing runs", "suspended", "True", "Suspended", "running", desired={"suspended": True}),
    Case("told to stop, only the record of an evicted pod is left", "suspended", "True", "Suspended", "running", (pod(finished=True),), desired={"suspended": True}),
    Case("told to stop, not applied yet", "running", "Unknown", "Stopping", "running", desired={"suspended": True, "in_sync": False}),
    Case("told to stop while in error", "error", "Unknown", "Stopping", "error", (pod(),), desired={"suspended": True}),
    Case("no replicas are asked for", "suspended", "True", "Suspended", "running", desired={"replicas": 0}),
    Case("resumed, nothing serves yet", "suspended", "Unknown", "Starting", "suspended", (pod(),)),
    Case("resumed and serving", "running", "True", "Running", "suspended", (pod(ready=True),), COMPLETE),
    Case("resumed and crashing", "error", "False", "Crashed", "suspended", (pod(failure=CRASH),)),
]  # fmt: skip


def previous(state: str | None, version: str = "v2") -> EnvironmentStatus | None:
    if state is None:
        return None
    values = {
        "name": "production",
        "id": "x",
        "status": state,
        "desiredVersion": version,
        "createdAt": NOW,
        "updatedAt": NOW,
    }
    return EnvironmentStatus.model_validate(values)


def wanted(**changes: Any) -> DesiredEnvironment:
    values = {"name": "production", "id": "x", "version": "v2", "revision": "r2", "healthy_seconds": 60.0}
    return DesiredEnvironment(**{**values, **changes})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_status_table(case: Case) -> None:
    desired = wanted(**case.desired)
    computed = compute_status(
        desired,
        ActualEnvironment(
            deployment=case.deployment, pods=case.pods, previous=previous(case.before, case.failed_version)
        ),
        NOW,
    )
    assert (computed.state, computed.outcome.status, computed.outcome.reason) == (
        case.state,
        case.ready,
        case.reason,
    )
    assert case.message in computed.outcome.message


def test_the_first_line_of_a_crash_says_all_and_the_traceback_follows() -> None:
    crash = Failure(
        "Crashed", "The code crashed with exit code 1: main.py:4: KeyError: 'A'", "Traceback:\n  boom"
    )
    desired = wanted()
    found = ActualEnvironment(pods=(old_pod(), pod(failure=crash)), previous=previous("running"))
    assert compute_status(desired, found, NOW).outcome.message.splitlines() == [
        "production: version v2 does not start: The code crashed with exit code 1: main.py:4: KeyError: 'A'; "
        "version v1 keeps serving",
        "Traceback:",
        "  boom",
    ]


def test_an_environment_that_waits_for_a_node_is_looked_at_again_when_its_time_is_over() -> None:
    desired = wanted()
    computed = compute_status(desired, ActualEnvironment(pods=(waiting_for_room(10),)), NOW)
    assert computed.requeue_after == 20


def test_updated_at_moves_with_the_state_and_created_at_never() -> None:
    desired = wanted()
    later = NOW + timedelta(hours=1)
    before = previous("running")
    failing = status_of(
        desired,
        compute_status(desired, ActualEnvironment(pods=(pod(failure=CRASH),), previous=before), later),
        before,
        later,
    )
    assert failing["createdAt"] == format_time(NOW)
    assert failing["updatedAt"] == format_time(later)
    still = EnvironmentStatus.model_validate(failing)
    again = status_of(
        desired,
        compute_status(desired, ActualEnvironment(pods=(pod(failure=CRASH),), previous=still), later),
        still,
        later + timedelta(hours=1),
    )
    assert again["updatedAt"] == format_time(later)


def test_deployed_at_moves_when_another_version_is_chosen_and_with_nothing_else() -> None:
    def status(version: str | None, before: EnvironmentStatus | None, hours: int) -> EnvironmentStatus:
        desired = wanted(version=version, revision="r", draft=version is None)
        now = NOW + timedelta(hours=hours)
        computed = compute_status(desired, ActualEnvironment(previous=before), now)
        return EnvironmentStatus.model_validate(status_of(desired, computed, before, now))

    draft = status(None, None, 0)
    assert draft.deployed_at is None
    first = status("v1", draft, 1)
    assert first.deployed_at == NOW + timedelta(hours=1)
    assert status("v1", first, 2).deployed_at == first.deployed_at
    assert status("v2", first, 3).deployed_at == NOW + timedelta(hours=3)
    # An upgrade writes nothing: what was chosen before this was noted stays without a time.
    unknown = first.model_copy(update={"deployed_at": None})
    assert status("v1", unknown, 4).deployed_at is None


def test_a_restart_for_memory_is_told_for_ten_minutes_though_the_pod_serves_again() -> None:
    desired = wanted()
    ended = Failure("OutOfMemory", "The code used more memory than its limit of 96Mi")
    before = EnvironmentStatus.model_validate(
        {
            **(previous("running") or pytest.fail("a state has a status")).model_dump(by_alias=True),
            "servingSince": NOW - timedelta(hours=1),
        }
    )
    seen = ActualEnvironment(
        deployment=COMPLETE, pods=(pod(ready=True, killed=(NOW, ended)),), previous=before
    )
    soon, later = NOW + timedelta(minutes=1), NOW + timedelta(minutes=11)
    computed = compute_status(desired, seen, soon)
    assert computed.outcome.status == "True"
    assert computed.requeue_after == 540
    message = status_of(desired, computed, seen.previous, soon)["message"]
    assert message == f"production: a pod was restarted at {format_time(NOW)}: {ended.message}"
    assert "message" not in status_of(desired, compute_status(desired, seen, later), seen.previous, later)


def test_while_a_pod_that_was_killed_is_started_again_the_event_says_why() -> None:
    desired = wanted()
    ended = Failure("OutOfMemory", "The code used more memory than its limit of 96Mi")
    seen = ActualEnvironment(
        deployment=COMPLETE, pods=(pod(killed=(NOW, ended)),), previous=previous("running")
    )
    outcome = compute_status(desired, seen, NOW + timedelta(seconds=1)).outcome
    assert outcome.reason == "NothingServes"
    assert outcome.message.endswith(
        f"is being started again; one was ended at {format_time(NOW)}: {ended.message}"
    )
    assert compute_status(desired, seen, NOW + timedelta(hours=1)).outcome.message.endswith(
        "is being started again"
    )
