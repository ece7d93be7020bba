"""Environments are looked at once a notification wants to know of their issues."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tieline_api.use_cases.report_rounds import watched_environments
from tieline_core.identity.ids import environment_id, new_id
from tieline_core.resources.notifications import ISSUE_EVENTS

PROJECT, ORGANISATION = new_id(), new_id()


def notification(*events: str, created: str = "2026-11-27T12:00:00Z", environment: str = "production") -> Any:
    spec: dict[str, Any] = {"projectRef": {"name": "orders"}, "environment": environment}
    if events:
        spec["events"] = list(events)
    return {"metadata": {"namespace": "acme", "creationTimestamp": created}, "spec": spec}


def watched(*notifications: Any, organisation: Any = SimpleNamespace(id=ORGANISATION)) -> dict[str, int]:  # noqa: B008
    project = {
        "metadata": {"name": "orders", "labels": {"tieline.dev/id": PROJECT}},
        "status": {"id": PROJECT},
    }
    cluster = SimpleNamespace(
        notifications=SimpleNamespace(list=lambda: notifications),
        projects=None,
        organisation_of=lambda _: organisation,
        referred=lambda *_: project,
    )
    platform: Any = SimpleNamespace(cluster=cluster)
    return {one.id: since for one, since in watched_environments(platform, ISSUE_EVENTS).items()}


def test_notifications_about_issues_count_from_the_first_one_on() -> None:
    found = watched(
        notification("issue_opened", created="2026-11-27T12:00:10Z"),
        notification("issue_regressed", "deploy_failed"),
        notification("deploy_failed", environment="staging"),
        notification(environment="test"),
    )
    assert found.keys() == {environment_id(PROJECT, "production"), environment_id(PROJECT, "test")}
    assert found[environment_id(PROJECT, "production")] == 1_795_780_800 * 10**9


def test_what_is_no_organisation_is_left_out() -> None:
    assert watched(notification(), organisation=None) == {}
