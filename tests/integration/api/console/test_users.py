"""Users: found among many, with their variables, connections, and runs that fail for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.objects import activate, make_template
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
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
    dialog.get_by_role("button", name="Save one change").click()
    expect(dialog.get_by_role("alert").first).to_contain_text("9")
    dialog.get_by_label("limit").fill("7")
    dialog.get_by_label("Region").select_option("us")
    dialog.get_by_label("express").select_option("yes")
    dialog.get_by_label("mails").fill("a@shop.example\nb@shop.example")
    dialog.get_by_role("group", name="warehouse").get_by_label("name").fill("North")
    dialog.get_by_label("rules").fill('[{"if": 1}]')
    dialog.get_by_role("button", name="Save 6 changes").click()
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
    ann.main.get_by_role("button", name="Variables").click()
    for name in ("limit", "rules"):
        dialog.get_by_role("button", name=f"Unset {name}").click()
    dialog.get_by_label("express").select_option("not set")
    expect(dialog.get_by_label("rules")).to_have_value("")
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Save 3 changes").click()
    expect(dialog).to_have_count(0)
    assert admin.ok("GET", where)["dynamicVariables"].keys() == {"region", "mails", "warehouse"}
    expect(ann.region("Connections of this user").get_by_text("not checked", exact=True)).to_be_visible()
    ann.finds_it_accessible()
    bob = person(viewer)
    bob.open(f"/users/{user['id']}")
    expect(bob.main.get_by_text('"region"')).to_be_visible()
    bob.sees_no("button", "Variables")


def test_a_change_is_confirmed_although_a_live_update_removed_its_row(person: Person_, admin: Client) -> None:
    project, template = make_template(admin, dynamic=True)
    user, activation = activate(admin, project, template, "key")
    ann = person(admin)
    ann.open(f"/users/{user['id']}")
    row = ann.main.get_by_role("button", name="Deactivate")
    expect(row).to_be_visible()

    def answer_late(route: Route) -> None:
        answered = route.fetch()
        expect(row).to_have_count(0)
        route.fulfill(response=answered)

    ann.page.route(f"**/activations/{activation['id']}", answer_late)
    row.click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Deactivate").click()
    expect(ann.page.get_by_text("User deactivated.")).to_be_visible()
