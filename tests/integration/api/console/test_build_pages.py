"""Dead letters, connections, systems, users and logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.objects import connect, make_template
from tests.integration.api.resources.test_connectors import import_into
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
    dialog.get_by_label("Connector").select_option(label="Another version of Warehouse")
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
    ann.page.get_by_label("Search in operations").fill("stock")
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
