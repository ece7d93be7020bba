"""Systems and connectors: imported by upload, looked through, and made into a system and a connection."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.console.test_issues import failed
from tests.integration.api.objects import connect, make_system, make_template
from tests.integration.api.resources.test_connectors import import_into
from tieline.cli.connector_code.files import ConnectorFiles
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


def test_operations_of_all_connectors_are_searched_and_their_call_is_copied(
    person: Person_, admin: Client
) -> None:
    mark = new_id()[-6:].lower()
    for title, path in ((f"Post {mark}", f"/parcels-{mark}/{{id}}"), (f"Rail {mark}", f"/waggons-{mark}")):
        paths = {path: {"get": {"operationId": "track", "summary": "Where it is", "responses": {}}}}
        description = {**DESCRIPTION, "info": {"title": title, "version": "1"}, "paths": paths}
        assert import_into(admin, new_id(), json.dumps(description).encode(), "one").status == 201
    ann = person(admin)
    ann.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ann.open("/systems")
    ann.page.get_by_label("Search in systems, connectors and operations").fill(f"track parcels-{mark}")
    found = ann.region("Operations").get_by_role("listitem")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("Where it is")
    found.get_by_role("button", name="In code").click()
    expect(found).to_contain_text(f"tieline connectors add 'Post {mark}' --operations track")
    ann.finds_it_accessible()
    found.get_by_role("button", name="Copy: await ctx.call").click()
    expect(found.get_by_role("button", name="Copy: await ctx.call")).to_have_text("Copied")
    name = ConnectorFiles.of(Path(), f"Post {mark}").name
    call = f'await ctx.call("{name}", "track", path={{"id": …}})'
    assert ann.page.evaluate("navigator.clipboard.readText()") == call
    found.get_by_role("link", name=f"Post {mark}").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(f"Post {mark}")
    expect(ann.region("Operations")).to_contain_text(f"/parcels-{mark}/{{id}}")
    ann.open(f"/systems?search=no-such-thing-{mark}")
    expect(ann.region("Operations")).to_contain_text("No operation contains all of these words")


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
    expect(ann.region("Import findings")).to_contain_text("warning")
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


def test_a_system_has_the_same_mark_wherever_it_stands(person: Person_, admin: Client, scene: Scene) -> None:
    system = make_system(admin, name=f"Our forge {new_id()[-6:]}", labels={"catalogue": "github"})
    _, template = make_template(admin, system=system["id"])
    connect(admin, template, "key", name="A forge")
    project = scene.project("Forging")
    scene.runs(project, failed(scene, project, "forge", system=system["name"]))
    ann = person(admin)
    for path, region in (("/systems", "Systems"), ("/connections", "Connections"), ("/issues", "Issues")):
        ann.open(path)
        row = ann.region(region).get_by_role("link").filter(has_text=system["name"])
        expect(row.locator(".mark")).to_have_text("OF")
        expect(row.locator(".mark")).to_have_class(re.compile(r"\bmark-5\b"))
