"""Dead letters, connections, systems, users and logs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.objects import activate, connect, make_system, make_template
from tests.integration.api.resources.test_connectors import import_into
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Warehouse", "version": "1"},
    "servers": [{"url": "https://api.warehouse.example"}],
    "security": [{"key": []}],
    "components": {"securitySchemes": {"key": {"type": "apiKey", "name": "X-Key", "in": "header"}}},
    "paths": {
        "/stock": {"get": {"operationId": "listStock", "responses": {"200": {"description": "The stock"}}}},
        "/orders": {"get": {"operationId": "listStock", "responses": {"200": {"description": "Orders"}}}},
    },
}


def test_dead_letters_are_counted_by_task_and_replayed(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Letters")
    for _ in range(2):
        scene.dead(project, message="the shop is closed")
    ann = person(admin)
    ann.open("/dead-letters")
    letters = ann.region("Dead letters of order.created").filter(has_text="Letters")
    expect(letters).to_contain_text("production · 2")
    expect(letters).to_contain_text("the shop is closed")
    ann.finds_it_accessible()
    letters.get_by_role("button", name="Replay").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Replay 2").click()
    expect(ann.page.get_by_role("status").filter(has_text="2 runs")).to_be_visible()
    assert len(admin.ok("GET", f"/projects/{project['id']}/runs")["items"]) == 4


def test_a_viewer_cannot_rotate_or_import(person: Person_, admin: Client, viewer: Client) -> None:
    _, template = make_template(admin)
    made = connect(admin, template, "key", name="Looked at")
    ann = person(viewer)
    ann.open(f"/connections/{made['id']}")
    expect(ann.region("Credentials")).to_contain_text("api-key")
    ann.sees_no("button", "Rotate")
    ann.open("/systems")
    expect(ann.region("Systems")).to_be_visible()
    ann.sees_no("button", "Import")


def test_an_api_description_is_imported_and_its_connector_is_listed(
    person: Person_, admin: Client, tmp_path: Path
) -> None:
    file = tmp_path / "warehouse.json"
    file.write_text(json.dumps(DESCRIPTION))
    ann = person(admin)
    ann.open("/systems")
    ann.button("Import…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("OpenAPI or Swagger").set_input_files(file)
    dialog.get_by_role("button", name="Import").click()
    expect(dialog).to_contain_text("Warehouse: 2 operations")
    expect(dialog).to_contain_text("warning")
    ann.finds_it_accessible()
    dialog.get_by_label("Version").fill("2.0.0")
    expect(dialog.get_by_label("Connector")).to_contain_text("Another version of Warehouse")
    dialog.get_by_role("button", name="Import").click()
    ann.button("Close").click()
    expect(ann.region("Connectors")).to_contain_text("2 versions")
    ann.finds_it_accessible()


def test_operations_are_searched_and_a_system_and_a_connection_are_made_of_them(
    person: Person_, admin: Client, scene: Scene
) -> None:
    connector = new_id()
    name = f"Depot {connector[-6:]}"
    description = {**DESCRIPTION, "info": {"title": name, "version": "1"}}
    assert import_into(admin, connector, json.dumps(description).encode(), "one").status == 201
    project = scene.project(f"For {name}")
    ann = person(admin)
    ann.open("/systems")
    ann.region("Connectors").get_by_role("link", name=name).click()
    operations = ann.region("Operations")
    expect(operations).to_contain_text("/orders")
    ann.page.get_by_label("Search in operations").fill("/stock")
    expect(operations).to_contain_text("/stock")
    expect(operations).not_to_contain_text("/orders")
    expect(ann.region("Found at the import")).to_contain_text("warning")
    ann.finds_it_accessible()
    ann.button("Make a system…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Create").click()
    dialog.get_by_role("button", name="Open the system").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(name)
    expect(ann.region("Ways to authenticate")).to_contain_text("api-key")
    ann.finds_it_accessible()
    ann.main.get_by_role("button", name="Connect").click()
    dialog.get_by_label("Environment").select_option(label=f"For {name} · production")
    expect(dialog).to_contain_text("under the name depot-")
    dialog.get_by_label("Name", exact=True).fill(f"Key of {name}")
    dialog.get_by_label("Key (sent as X-Key)").fill("a-key")
    dialog.get_by_role("button", name="Create").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(f"Key of {name}")
    (template,) = admin.ok("GET", f"/projects/{project['id']}/connection-templates")["items"]
    assert template["name"].startswith("depot-")
    assert template["connectionId"]


def test_a_user_is_found_with_the_runs_that_fail_for_them(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("For users")
    name = f"zoe-{new_id()[-6:].lower()}"
    admin.ok("POST", "/users", {"externalId": name, "displayName": "Zoe"}, status=201)
    scene.dead(project, user=name, message="the token of Zoe is refused")
    ann = person(admin)
    ann.open("/users")
    ann.page.get_by_label("Search by name or id").fill(name)
    ann.page.keyboard.press("Enter")
    ann.page.get_by_role("link", name="Zoe").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Zoe")
    expect(ann.region("Runs for this user")).to_contain_text("the token of Zoe is refused")
    ann.sees("Not activated anywhere")
    ann.finds_it_accessible()


def test_logs_without_a_line_say_how_to_look_and_can_be_paused(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Quiet")
    ann = person(admin)
    ann.open(f"/logs?project={project['id']}&severity=ERROR")
    ann.sees("No line")
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


def test_a_missed_schedule_is_shown_and_can_be_run_and_paused(
    person: Person_, admin: Client, scene: Scene
) -> None:
    """Against answers that this test makes, because this API has no operation on schedules yet."""
    project = scene.project("On time")
    nightly = {
        **{"id": new_id(), "name": "nightly", "schedule": "0 3 * * *", "timezone": "Europe/Berlin"},
        **{"activations": "users", "paused": False, "missed": "2026-11-24T03:00:00Z"},
    }
    sent: list[tuple[str, Any]] = []

    def serve(route: Route) -> None:
        request = route.request
        if request.method == "GET":
            route.fulfill(json=[nightly])
            return
        sent.append((request.method, request.post_data_json))
        if request.method == "PUT":
            nightly["paused"] = request.post_data_json["paused"]
        route.fulfill(status=204)

    ann = person(admin)
    ann.page.route("**/schedulers**", serve)
    ann.page.route("**/schedulers/*", serve)
    ann.open(f"/schedules?project={project['id']}")
    schedule = ann.region("Schedule nightly")
    expect(schedule).to_contain_text("missed")
    expect(schedule).to_contain_text("0 3 * * *")
    ann.finds_it_accessible()
    schedule.get_by_role("button", name="Run now").click()
    ann.page.get_by_label("For this user alone").fill("ann")
    ann.button("Run").last.click()
    expect(ann.page.get_by_role("status").filter(has_text="asked to run now")).to_be_visible()
    schedule.get_by_role("button", name="Pause").click()
    expect(schedule).to_contain_text("paused")
    assert sent == [("POST", {"user": "ann"}), ("PUT", {"paused": True})]


SCHEMA = {
    "type": "object",
    "required": ["region"],
    "properties": {
        "region": {"enum": ["eu", "us"], "title": "Region"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 9, "description": "Orders a day"},
        "express": {"type": "boolean"},
        "mails": {"type": "array", "items": {"type": "string"}},
        "warehouse": {"type": "object", "properties": {"name": {"type": "string"}}},
        "rules": {"type": "array", "items": {"type": "object"}},
    },
}


def test_a_users_variables_are_changed_in_a_form_of_the_schema(
    person: Person_, admin: Client, viewer: Client
) -> None:
    project, template = make_template(admin, dynamic=True)
    admin.ok("PUT", f"/projects/{project['id']}/variables", SCHEMA)
    user, activation = activate(
        admin, project, template, "key", dynamicVariables={"region": "eu", "limit": 3}
    )
    ann = person(admin)
    ann.open(f"/users/{user['id']}")
    ann.main.get_by_role("button", name="Variables").click()
    dialog = ann.page.get_by_role("dialog")
    expect(dialog.get_by_label("Region")).to_have_value("eu")
    ann.finds_it_accessible()
    dialog.get_by_label("limit").fill("12")
    dialog.get_by_role("button", name="Store one change").click()
    expect(dialog.get_by_role("alert").first).to_contain_text("9")
    dialog.get_by_label("limit").fill("7")
    dialog.get_by_label("Region").select_option("us")
    dialog.get_by_label("express").select_option("yes")
    dialog.get_by_label("mails").fill("a@shop.example\nb@shop.example")
    dialog.get_by_role("group", name="warehouse").get_by_label("name").fill("North")
    dialog.get_by_label("rules").fill('[{"if": 1}]')
    dialog.get_by_role("button", name="Store 6 changes").click()
    expect(dialog).to_have_count(0)
    where = f"/environments/{project['environments'][0]['id']}/activations/{activation['id']}"
    assert admin.ok("GET", where)["dynamicVariables"] == {
        "region": "us",
        "limit": 7,
        "express": True,
        "mails": ["a@shop.example", "b@shop.example"],
        "warehouse": {"name": "North"},
        "rules": [{"if": 1}],
    }
    expect(ann.main.get_by_text("works", exact=True)).to_be_visible()
    ann.finds_it_accessible()
    bob = person(viewer)
    bob.open(f"/users/{user['id']}")
    expect(bob.main.get_by_text('"region"')).to_be_visible()
    bob.sees_no("button", "Variables")


def test_what_waits_is_told_by_task_and_key(person: Person_, viewer: Client, scene: Scene) -> None:
    project = scene.project("Waiting room")
    now = time.time()
    scene.runs(
        project,
        *(
            record("", "queued", 0, kind="event", task="order.created", key=key, queued_at=now - ago, at=now)
            for key, ago in (("ann", 7200), ("ann", 60), ("bob", 30))
        ),
    )
    ann = person(viewer)
    ann.open("/dead-letters")
    waiting = ann.region("Waiting of order.created").filter(has_text="Waiting room")
    expect(waiting).to_contain_text("3 queued · the oldest 2 h ago")
    expect(waiting.get_by_role("link", name="ann · 2")).to_be_visible()
    ann.finds_it_accessible()
    waiting.get_by_role("link", name="bob · 1").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Runs")
    assert "key=bob" in ann.page.url


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
