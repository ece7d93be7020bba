"""Logs, notification channels, schedules, and what a viewer or a GitOps tool's owner leaves out."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.objects import activate, connect, make_system, make_template
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]


def test_a_viewer_cannot_rotate_or_import(person: Person_, admin: Client, viewer: Client) -> None:
    _, template = make_template(admin)
    made = connect(admin, template, "key", name="Looked at")
    ann = person(viewer)
    ann.open(f"/connections/{made['id']}")
    expect(ann.region("Credentials")).to_contain_text("api-key")
    ann.sees_no("button", "Rotate")
    ann.open("/systems")
    expect(ann.region("Systems")).to_be_visible()
    ann.sees_no("button", "Import…")


def test_logs_without_a_line_say_how_to_look_and_can_be_paused(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Quiet")
    ann = person(admin)
    ann.open(f"/logs?project={project['id']}&severity=ERROR")
    ann.sees("No log lines")
    expect(ann.page.get_by_label("Severity")).to_have_value("ERROR")
    ann.sees(f"kubectl logs -l tieline.dev/environment-id={project['environments'][0]['id']}")
    ann.button("Pause").click()
    expect(ann.button("Go on")).to_be_visible()
    ann.finds_it_accessible()


def test_a_notification_channel_is_made_and_deleted(person: Person_, admin: Client, viewer: Client) -> None:
    ann = person(admin)
    ann.open("/notifications")
    ann.button("New channel…").click()
    ann.page.get_by_label("Type").select_option("webhook")
    ann.page.get_by_label("Name").fill("On call")
    ann.page.get_by_label("URL").fill("https://hooks.acme.example/tieline")
    ann.page.get_by_label("Signing secret").fill("whsec_too-short")
    ann.button("Create").click()
    expect(ann.page.get_by_role("alert")).to_contain_text("config.secret")
    secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    ann.page.get_by_label("Signing secret").fill(secret)
    ann.button("Create").click()
    channel = ann.region("Channel On call")
    expect(channel).to_contain_text("https://hooks.acme.example/tieline")
    assert secret not in ann.page.content()
    ann.finds_it_accessible()
    bob = person(viewer)
    bob.open("/notifications")
    expect(bob.region("Channel On call")).to_be_visible()
    bob.sees_no("button", "Delete")
    bob.sees_no("button", "New channel")
    channel.get_by_role("button", name="Delete").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(channel).to_have_count(0)
    assert admin.ok("GET", "/notification_channels")["items"] == []


def test_a_channel_is_changed_and_its_secret_stays(person: Person_, admin: Client) -> None:
    ann = person(admin)
    ann.open("/notifications")
    ann.button("New channel…").click()
    ann.page.get_by_label("Name").fill("Chat")
    ann.page.get_by_label("URL").fill("https://hooks.slack.example/services/s3cr3t")
    ann.button("Create").click()
    ann.region("Channel Chat").get_by_role("button", name="Change…").click()
    dialog = ann.page.get_by_role("dialog")
    expect(dialog.get_by_label("Type")).to_be_disabled()
    expect(dialog).to_contain_text("Leave it empty to keep the present one")
    ann.finds_it_accessible()
    dialog.get_by_label("Name").fill("Chat of the night")
    dialog.get_by_role("button", name="Save").click()
    channel = ann.region("Channel Chat of the night")
    expect(channel).to_be_visible()
    assert "s3cr3t" not in ann.page.content()
    channel.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(channel).to_have_count(0)


def test_a_missed_schedule_is_shown_and_can_be_run_and_paused(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("On time")
    _, template = make_template(admin, project=project, dynamic=True)
    user, _ = activate(admin, project, template, "a-key")
    scene.late(project, "nightly")
    nightly = {"name": "nightly", "cron": "0 * * * *", "timezone": "UTC", "activations": "users"}
    assert scene.registers(project, nightly) == 204
    ann = person(admin)
    ann.open(f"/schedules?project={project['id']}")
    schedule = ann.region(f"Schedule nightly in {project['environments'][0]['name']}")
    expect(schedule).to_contain_text("missed")
    expect(schedule).to_contain_text("0 * * * *")
    ann.finds_it_accessible()
    schedule.get_by_role("button", name="Run now").click()
    ann.page.get_by_label("Only for this user").fill(user["externalId"])
    ann.button("Run").last.click()
    expect(ann.page.get_by_role("status").filter(has_text="asked to run now")).to_be_visible()
    schedule.get_by_role("button", name="Pause").click()
    expect(schedule).to_contain_text("paused")
    (stored,) = admin.ok("GET", f"/environments/{project['environments'][0]['id']}/schedulers")
    assert stored["paused"] is True


def test_what_a_gitops_tool_owns_is_marked_and_cannot_be_edited(
    person: Person_, admin: Client, scene: Scene
) -> None:
    system = make_system(admin)
    name = f"git-{new_id().lower()}"
    manifests = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"value": "key"},
         "type": "tieline.dev/credential"},
        {
            "apiVersion": "tieline.dev/v1alpha1", "kind": "Connection", "metadata": {"name": name},
            "spec": {
                "name": "Shop of Git", "systemRef": {"name": system["id"].lower()},
                "credentials": [
                    {"id": "key", "type": "string", "authSchemeConfigId": "key", "secretRef": {"name": name}}
                ],
            },
        },
    ]  # fmt: skip
    for manifest in manifests:
        scene.kubectl(
            *("apply", "--server-side", "--field-manager=argocd-controller", "-f", "-"),
            namespace=scene.organisation.namespace,
            stdin=json.dumps(manifest),
        )
    ann = person(admin)
    ann.open("/connections?search=shop+of+git")
    ann.page.get_by_role("link", name="Shop of Git").click()
    note = ann.page.get_by_role("note", name="Owned by others")
    expect(note).to_contain_text("argocd-controller owns the fields")
    expect(note).to_contain_text("spec.name")
    expect(ann.region("Credentials")).to_contain_text("of argocd-controller")
    ann.sees_no("button", "Rotate")
    ann.finds_it_accessible()
