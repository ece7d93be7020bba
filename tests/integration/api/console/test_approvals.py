"""Approvals: what runs ask, and answering it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from playwright.sync_api import expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.engine_objects import ask
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
FORM = {"type": "object", "properties": {"limit": {"type": "integer"}}, "required": ["limit"]}


def test_somebody_approves_and_rejects(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Refunds")
    scene.runs(project, record("", "waiting", 1))
    streams = EventStreams(admin.organisation, project["environments"][0]["id"])
    hostile = "<img src=x onerror=alert(1)>"
    for asked in (
        {"title": "Give 7 credit?", "form": FORM, "details": {"customer": hostile}},
        {"title": "Refund 480 EUR?"},
        {"title": "For somebody else?", "by": ("user:nobody",)},
    ):
        scene.apart(partial(ask, scene.engine, streams, **asked))
    ann = person(admin)
    ann.open("/approvals")
    credit = ann.region("Approval Give 7 credit?")
    expect(credit).to_contain_text(hostile)
    expect(ann.region("Approval For somebody else?")).to_contain_text("for user:nobody")
    expect(ann.region("Approval For somebody else?").get_by_role("button")).to_have_count(0)
    ann.finds_it_accessible()
    credit.get_by_role("button", name="Approve").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Approve").click()
    expect(dialog).to_contain_text("limit")
    dialog.get_by_label("Values").fill('{"limit": 5000}')
    dialog.get_by_label("Comment").fill("known for years")
    dialog.get_by_role("button", name="Approve").click()
    expect(ann.page.get_by_role("status").filter(has_text="Approved")).to_be_visible()
    closed = ann.region("Closed")
    expect(closed.get_by_role("region", name="Approval Give 7 credit?")).to_contain_text("known for years")
    ann.region("Approval Refund 480 EUR?").get_by_role("button", name="Reject").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    expect(closed.get_by_role("region", name="Approval Refund 480 EUR?")).to_contain_text("rejected by")
    found = {one["title"]: one for one in admin.ok("GET", "/approvals")["items"]}
    assert found["Give 7 credit?"]["answer"]["values"] == {"limit": 5000}
    assert found["Refund 480 EUR?"]["state"] == "rejected"


def test_a_link_in_a_message_survives_signing_in_and_answers_nothing(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Refunds by link")
    scene.runs(project, record("", "waiting", 1))
    environment = project["environments"][0]["id"]
    streams = EventStreams(admin.organisation, environment)
    asked = new_id()
    scene.apart(partial(ask, scene.engine, streams, id=asked, title="Refund 12 EUR?"))
    ann = person(admin)
    ann.page.context.clear_cookies()
    ann.page.goto(f"{ann.url}/console/{admin.organisation}/approvals/{environment}/{asked}")
    ann.page.get_by_label("Token or API key").fill(str(admin.token))
    ann.button("Sign in").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Refund 12 EUR?")
    path = f"/environments/{environment}/approvals/{asked}"
    assert admin.ok("GET", path)["state"] == "open"
    ann.finds_it_accessible()
    ann.button("Approve").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(ann.region("Approval Refund 12 EUR?")).to_contain_text("approved by")
    assert admin.ok("GET", path)["state"] == "approved"
