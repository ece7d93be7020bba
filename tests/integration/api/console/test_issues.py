"""Issues in the console: what is open, what it is, and what people decide about it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunError, RunRecord, UpstreamAnswer

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]


def failed(
    scene: Scene, project: dict[str, Any], task: str, *, system: str = "Shop", **fields: Any
) -> RunRecord:
    upstream = UpstreamAnswer(status=503, body="closed", system=system)
    error = RunError(
        type="tieline.errors.UpstreamError", message=f"shop refused {new_id()}", upstream=upstream
    )
    return replace(
        scene.succeeded(project, task=task),
        **{"status": "failed", "error": error, "at": time.time(), **fields},
    )


def test_one_failing_system_is_one_issue_that_leads_to_its_runs_and_is_resolved(
    person: Person_, admin: Client, scene: Scene
) -> None:
    task = f"sync-{new_id()[-6:].lower()}"
    project = scene.project("Failing shop")
    scene.runs(project, *(failed(scene, project, task, user=f"u{number}") for number in range(7)))
    ann = person(admin)
    attention = ann.region("Needs attention")
    expect(attention.get_by_role("link", name=task)).to_have_count(1)
    expect(attention).to_contain_text(f"{task}: Shop answered 503")
    expect(attention).to_contain_text("7 runs, 7 users, since v1")
    attention.get_by_role("link", name=task).click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(f"{task}: Shop answered 503")
    ann.finds_it_accessible()
    affected = ann.region("Affected users")
    expect(affected.get_by_role("link")).to_have_count(7)
    affected.get_by_role("link", name="u3").click()
    ann.sees("1 run, the newest first")
    ann.page.go_back()
    ann.button("Assign…").click()
    ann.page.get_by_label("Assignee").fill("ann")
    ann.button("Save").click()
    expect(ann.region("About")).to_contain_text("ann")
    ann.button("Resolve…").click()
    ann.finds_it_accessible()
    ann.page.get_by_role("dialog").get_by_role("button", name="Resolve").click()
    expect(ann.page.get_by_role("note")).to_contain_text("Resolved")
    scene.runs(project, failed(scene, project, task, ended_at=time.time()))
    expect(ann.page.get_by_role("note")).to_contain_text("Regressed")
    ann.region("Latest runs").get_by_role("link", name="All 8").click()
    ann.sees("8 runs, the newest first")
    ann.main.get_by_role("link", name=task).first.click()
    expect(ann.region("Why it failed")).to_contain_text("Shop answered 503")
    ann.region("About").get_by_role("link").first.click()
    expect(ann.page).to_have_url(re.compile(r"/issues/[0-9a-f]{20}$"))


def test_the_list_has_filters_in_the_url_and_the_keyboard_goes_through_it(
    person: Person_, admin: Client, scene: Scene
) -> None:
    task = f"list-{new_id()[-6:].lower()}"
    project = scene.project("Two failures")
    scene.runs(
        project,
        failed(scene, project, task),
        failed(scene, project, task, error=RunError(type="main.OrderError", message="order 7 is lost")),
    )
    ann = person(admin)
    ann.page.get_by_role("link", name="Issues", exact=True).click()
    ann.sees("OrderError")
    ann.open(f"/issues?task={task}")
    ann.sees("2 issues, sorted by last seen")
    ann.finds_it_accessible()
    ann.page.get_by_label("System").fill("Shop")
    ann.page.keyboard.press("Enter")
    expect(ann.page).to_have_url(re.compile("system=Shop"))
    ann.sees("1 issue, sorted by last seen")
    ann.page.get_by_role("region", name="Issues").focus()
    ann.page.keyboard.press("j")
    ann.page.keyboard.press("Enter")
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(f"{task}: Shop answered 503")
    ann.button("Mute…").click()
    expect(ann.page.get_by_role("dialog").get_by_role("button", name="Mute")).to_be_disabled()
    ann.page.get_by_label("Reason").fill("the shop is being moved")
    ann.page.get_by_role("dialog").get_by_role("button", name="Mute").click()
    expect(ann.page.get_by_role("note")).to_contain_text("the shop is being moved")
    ann.open(f"/issues?task={task}")
    ann.sees("1 issue, sorted by last seen")
    ann.toggles("State", "muted", "open", "regressed")
    expect(ann.page).to_have_url(re.compile("state=muted"))
    expect(ann.main.get_by_role("link", name="Shop answered 503")).to_be_visible()
    ann.page.get_by_label("Time").select_option("1h")
    expect(ann.page).to_have_url(re.compile("last=1h"))
    expect(ann.main.get_by_role("link", name="Shop answered 503")).to_be_visible()
    ann.page.get_by_label("Time").select_option("from … to …")
    ann.page.get_by_label("To", exact=True).fill("2020-01-01T00:00")
    ann.page.get_by_label("To", exact=True).blur()
    expect(ann.page).to_have_url(re.compile("until=20"))
    ann.sees("No issues match these filters")
    ann.open("/overview")
    expect(ann.region("Needs attention")).not_to_contain_text(f"{task}: Shop")


def test_the_runs_of_the_last_hour_of_an_issue_are_replayed_alone(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("An hour")
    task = f"hour-{new_id()[-6:].lower()}"
    now = time.time()
    new, old = (
        failed(scene, project, task, queued_at=now - age, kind="event", input=b"{}") for age in (60, 7_200)
    )
    scene.runs(project, new, old)
    ann = person(admin)
    ann.region("Needs attention").get_by_role("link", name=task).click()
    ann.button("Replay…").click()
    dialog = ann.page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 runs can be replayed, 1 of them from the last hour")
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Replay 1 of the last hour").click()
    expect(dialog).to_have_count(0)
    (replayed,) = admin.ok("GET", f"/projects/{project['id']}/runs?replayed=true")["items"]
    assert replayed["id"] == new.id


def test_a_viewer_reads_issues_and_changes_none(
    person: Person_, viewer: Client, admin: Client, scene: Scene
) -> None:
    project = scene.project("Looked at")
    task = f"seen-{new_id()[-6:].lower()}"
    scene.runs(project, failed(scene, project, task))
    ann = person(viewer)
    ann.open(f"/projects/{project['id']}")
    ann.region("Issues").get_by_role("link", name=task).click()
    expect(ann.region("What failed")).to_be_visible()
    expect(ann.button("Resolve…")).to_have_count(0)
    expect(ann.button("Replay…")).to_have_count(0)
