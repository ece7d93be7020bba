"""What people set up from the console: environments, users, systems, notifications, roles and keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, expect

from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.objects import connect, make_system, make_template
from tieline_core.identity.ids import format_time, new_id

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"enum": ["eu", "us"], "title": "Region"},
        "limit": {"type": "integer", "maximum": 9},
    },
}


def dialog_of(someone: Person) -> Locator:
    return someone.page.get_by_role("dialog")


def test_an_environment_is_copied_and_deleted(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("To manage")
    ann = person(admin)
    ann.open(f"/projects/{project['id']}")
    ann.main.get_by_role("link", name="Settings").click()
    ann.button("New environment…").click()
    dialog = dialog_of(ann)
    dialog.get_by_label("Name").fill("production")
    dialog.get_by_label("Copy the settings of").select_option("production")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert").first).to_be_visible()
    dialog.get_by_label("Name").fill("staging")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_have_count(0)
    ann.finds_it_accessible()
    ann.region("Environment staging").get_by_role("button", name="Delete").click()
    expect(dialog).to_contain_text("It deletes")
    expect(dialog.get_by_role("button", name="Delete", exact=True)).to_be_disabled()
    dialog.get_by_label("to confirm").fill("staging")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(ann.region("Environment staging")).to_have_count(0)
    expect(ann.region("Environment production").get_by_role("button", name="Delete")).to_be_disabled()


def test_an_environment_is_scaled_and_gets_variables(
    person: Person_, admin: Client, viewer: Client, scene: Scene
) -> None:
    project = scene.project("To scale")
    admin.ok("PUT", f"/projects/{project['id']}/variables", SCHEMA)
    ann = person(admin)
    ann.open(f"/projects/{project['id']}/settings")
    ann.region("Environment production").get_by_role("link", name="production").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Settings of production")
    ann.main.get_by_label("Replicas").fill("2")
    ann.main.get_by_label("Memory limit").fill("512Mi")
    ann.main.get_by_label("Sleep while there is no work").check()
    ann.main.get_by_label("Sleep after").fill("30m")
    ann.button("Save the pods").click()
    ann.button("Add a variable").click()
    ann.main.get_by_label("Name of variable 1").fill("LOG_LEVEL")
    ann.main.get_by_label("Value of variable 1").fill("debug")
    ann.button("Add a variable").click()
    ann.main.get_by_label("Name of variable 2").fill("SMTP_PASSWORD")
    ann.main.get_by_label("Kind of variable 2").select_option("secret")
    ann.main.get_by_label("Secret of variable 2").fill("smtp")
    ann.main.get_by_label("Key of variable 2").fill("password")
    ann.finds_it_accessible()
    ann.button("Save the environment variables").click()
    warned = ann.page.get_by_role("status").filter(has_text="SMTP_PASSWORD")
    expect(warned).to_be_visible()
    ann.main.get_by_label("limit", exact=True).fill("12")
    ann.button("Save the variables of the code").click()
    expect(ann.region("Variables").get_by_role("alert").first).to_contain_text("9")
    ann.main.get_by_label("limit", exact=True).fill("7")
    ann.button("Save the variables of the code").click()

    def production() -> dict[str, object]:
        found = admin.ok("GET", f"/projects/{project['id']}")["environments"]
        return next(one for one in found if one["name"] == "production")

    config = eventually("the variables", lambda: production() if "env" in production()["config"] else None)[
        "config"
    ]
    assert config["deploymentSpec"]["replicas"] == 2
    assert config["deploymentSpec"]["resources"]["limits"] == {"memory": "512Mi"}
    assert config["scaling"] == {"min": 0, "idleAfter": "30m"}
    assert config["env"] == [
        {"name": "LOG_LEVEL", "value": "debug"},
        {"name": "SMTP_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "smtp", "key": "password"}}},
    ]
    expect(ann.button("Save the variables of the code")).to_be_disabled()
    assert admin.ok("GET", f"/environments/{production()['id']}/variables") == {"limit": 7}
    ann.region("Variables").get_by_role("button", name="Unset limit").click()
    ann.button("Save the variables of the code").click()
    where = f"/environments/{production()['id']}/variables"
    eventually("the variable unset", lambda: admin.ok("GET", where) == {})

    bob = person(viewer)
    bob.open(f"/projects/{project['id']}/environments/production/settings")
    expect(bob.main.get_by_label("Replicas")).to_be_disabled()
    bob.sees_no("button", "Save")


def test_a_user_is_created_activated_and_deleted(person: Person_, admin: Client) -> None:
    project, template = make_template(admin, dynamic=True)
    admin.ok("PUT", f"/projects/{project['id']}/variables", SCHEMA)
    name = f"mia-{new_id()[-6:].lower()}"
    ann = person(admin)
    ann.open("/users")
    ann.button("New user…").click()
    dialog = dialog_of(ann)
    dialog.get_by_label("ID in your application").fill(name)
    dialog.get_by_label("Name").fill("Mia")
    dialog.get_by_role("button", name="Create").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Mia")
    made = connect(admin, template, "a-key", name="Shop of Mia", externalId=name)
    ann.button("Activate…").click()
    place = f"{project['name']} · production"
    dialog.get_by_label("Environment").select_option(label=place)
    choice = dialog.get_by_label("Connection for")
    expect(choice).to_contain_text("Shop of Mia")
    choice.select_option(made["id"])
    dialog.get_by_label("Region").select_option("eu")
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Activate", exact=True).click()
    card = ann.region(place)
    expect(card).to_contain_text('"region": "eu"')
    expect(card).to_contain_text("Shop of Mia")
    ann.finds_it_accessible()
    card.get_by_role("button", name="Deactivate…").click()
    dialog.get_by_role("button", name="Deactivate", exact=True).click()
    expect(card).to_have_count(0)
    ann.button("Delete Shop of Mia…").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(ann.region("Connections of this user")).to_contain_text("None yet")
    ann.button("Delete…").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Users")
    assert admin("GET", f"/users/{name}").status == 404


def test_a_system_is_made_by_form(person: Person_, admin: Client) -> None:
    name = f"Depot {new_id()[-6:]}"
    ann = person(admin)
    ann.open("/systems")
    expect(ann.main.locator(".page-head .primary")).to_have_text("Add from the catalogue")
    ann.main.get_by_role("link", name="New system by form").click()
    ann.region("General").get_by_label("Name").fill(name)
    ann.main.get_by_label("Base URL").fill("https://{depot}.depot.example/v1")
    ann.button("Add an input").click()
    group = ann.main.get_by_role("group", name="Input")
    group.get_by_label("Variable").fill("depot")
    group.get_by_label("Label").fill("Your depot")
    ann.main.get_by_label("Way to authenticate").select_option("api-key")
    ann.region("Authentication").get_by_label("Name").fill("X-Depot-Key")
    ann.region("Check request").get_by_label("Path").fill("me")
    ann.finds_it_accessible()
    ann.button("Create").click()
    expect(ann.page.get_by_role("alert").filter(has_text="check.path")).to_be_visible()
    ann.region("Check request").get_by_label("Path").fill("/me")
    ann.button("Create").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(name)
    (made,) = admin.ok("GET", f"/systems?search={name.split()[1]}")["items"]
    assert made["inputs"] == [{"name": "depot", "label": "Your depot"}]
    assert made["check"] == {"method": "GET", "path": "/me"}
    assert made["authSchemeConfigs"][0]["apiKey"]["name"] == "X-Depot-Key"


def test_a_system_is_changed_and_deleted(person: Person_, admin: Client, viewer: Client) -> None:
    made = make_system(admin, check={"path": "/me"})
    ann = person(admin)
    ann.open(f"/systems/{made['id']}")
    ways = ann.region("Ways to authenticate")
    ways.get_by_role("button", name="Add…").click()
    dialog = dialog_of(ann)
    dialog.get_by_label("Way to authenticate").select_option("hmac")
    dialog.get_by_label("Sender").fill("github")
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Save").click()
    expect(ways).to_contain_text("hmac")
    ways.get_by_role("button", name="Change api-key…").click()
    dialog.get_by_label("Prefix").fill("Key ")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    ann.main.get_by_role("link", name="Change").click()
    ann.main.get_by_label("Concurrent requests").fill("4")
    ann.button("Save").click()
    expect(ann.region("About")).to_contain_text("4")
    changed = admin.ok("GET", f"/systems/{made['id']}")
    assert changed["limits"] == {"concurrent": 4}
    assert changed["check"] == made["check"]
    assert {one["type"] for one in changed["authSchemeConfigs"]} == {"api-key", "hmac"}
    assert (
        next(one for one in changed["authSchemeConfigs"] if one["type"] == "api-key")["apiKey"]["prefix"]
        == "Key "
    )
    ann.finds_it_accessible()
    bob = person(viewer)
    bob.open(f"/systems/{made['id']}")
    expect(bob.region("Ways to authenticate")).to_contain_text("hmac")
    bob.sees_no("button", "Delete")
    expect(bob.main.get_by_role("link", name="Change", exact=True)).to_have_count(0)
    ann.button("Delete…").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Systems and connectors")


def test_a_channel_by_mail_is_tested_and_a_project_sends_to_it(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Noticed")
    ann = person(admin)
    ann.open("/notifications")
    ann.button("New channel…").click()
    dialog = dialog_of(ann)
    dialog.get_by_label("Type").select_option("email")
    dialog.get_by_label("Name", exact=True).fill("Post")
    dialog.get_by_label("Mail server").fill("smtp.acme.example")
    dialog.get_by_label("Sender").fill("tieline@acme.example")
    dialog.get_by_label("Recipients").fill("a@acme.example, b@acme.example")
    dialog.get_by_label("User name").fill("tieline")
    dialog.get_by_label("Password", exact=True).fill("not-shown-again")
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Create").click()
    channel = ann.region("Channel Post")
    expect(channel).to_contain_text("smtp.acme.example → a@acme.example, b@acme.example")
    channel.get_by_role("button", name="Send a test").click()
    expect(channel).to_contain_text("Sending the test message")
    (stored,) = [one for one in admin.ok("GET", "/notification_channels")["items"] if one["name"] == "Post"]
    status = json.dumps(
        {"status": {"lastDeliveredAt": format_time(datetime.now(UTC) + timedelta(seconds=1))}}
    )
    scene.kubectl(
        *("patch", "notificationchannel", stored["id"].lower(), "--subresource=status", "--type=merge"),
        *("-p", status),
        namespace=scene.organisation.namespace,
    )
    expect(channel).to_contain_text("was delivered")
    assert "not-shown-again" not in ann.page.content()

    ann.open(f"/projects/{project['id']}/settings")
    ann.button("New notification…").click()
    dialog.get_by_label("Channel").select_option(label="Post (email)")
    dialog.get_by_label("a schedule missed its time").uncheck()
    dialog.get_by_label("a user was activated").check()
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Create").click()
    notification = ann.region("Notification Failures of Noticed")
    expect(notification).to_contain_text("production → Post")
    expect(notification).to_contain_text("a user was activated")
    notification.get_by_role("button", name="Change…").click()
    expect(dialog.get_by_label("Environment")).to_be_disabled()
    dialog.get_by_label("a user was activated").uncheck()
    dialog.get_by_label("a schedule missed its time").check()
    dialog.get_by_label("Failure percentage").fill("7")
    dialog.get_by_role("button", name="Save").click()
    expect(notification).to_contain_text("all failures")
    (changed,) = admin.ok("GET", f"/projects/{project['id']}/notifications")["items"]
    assert (changed["failure_rate"]["percent"], "schedule_missed" in changed["events"]) == (7, True)
    notification.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(notification).to_have_count(0)


def test_a_role_is_assigned_to_a_group_and_removed(person: Person_, admin: Client) -> None:
    group = f"login:team-{new_id()[-6:].lower()}"
    ann = person(admin)
    ann.open("/access")
    ann.button("Assign a role…").click()
    dialog = dialog_of(ann)
    dialog.get_by_label("To").select_option("Group")
    dialog.get_by_label("Name").fill("system:authenticated")
    dialog.get_by_role("button", name="Assign").click()
    expect(dialog.get_by_role("alert").first).to_contain_text("system:")
    dialog.get_by_label("Name").fill(group)
    dialog.get_by_label("Role").select_option("editor")
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Assign").click()
    row = ann.region("Roles").get_by_role("region").filter(has_text=group)
    expect(row).to_contain_text("editor")
    row.get_by_role("button", name="Remove…").click()
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(row).to_have_count(0)


def test_a_new_key_gets_a_role_and_says_when_it_was_used(person: Person_, admin: Client) -> None:
    user = f"deploys-{new_id()[-6:].lower()}"
    ann = person(admin)
    ann.open("/access")
    ann.button("New key…").click()
    dialog = dialog_of(ann)
    dialog.get_by_label("The user that the key acts as").fill(user)
    dialog.get_by_label("Role").select_option("editor")
    dialog.get_by_role("button", name="Create").click()
    key = str(dialog.get_by_role("button", name="Copy: tlk_").get_attribute("aria-label"))[len("Copy: ") :]
    expect(dialog).to_contain_text("editor")
    dialog.get_by_role("button", name="I have stored it").click()
    row = ann.region(f"API key of {user}")
    expect(row).to_contain_text("never")
    by_key = Client(admin.url, None, admin.organisation, {"X-API-Key": key})
    eventually("the role counts", lambda: by_key("GET", "/projects").status == 200)
    ann.page.reload()
    expect(row).to_contain_text("last used now")
    expect(row).to_contain_text("editor")


def test_schedules_of_all_projects_are_one_list(person: Person_, admin: Client, scene: Scene) -> None:
    mark = new_id()[-6:].lower()
    for name, cron in (("yearly", "0 0 1 1 *"), ("soon", "* * * * *")):
        project = scene.project(f"{name} {mark}")
        scene.environment_is(project, status="running")
        schedule = {"name": f"{name}-{mark}", "cron": cron, "timezone": "UTC", "activations": "static"}
        assert scene.registers(project, schedule) == 204
    ann = person(admin)

    def both() -> bool:
        return admin.ok("GET", f"/schedulers?search={mark}")["totalCount"] == 2

    eventually("both", both)
    ann.open(f"/schedules?search={mark}")
    rows = ann.main.get_by_role("region")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(f"soon-{mark}")
    expect(rows.last).to_contain_text(f"yearly {mark} · production")
    ann.finds_it_accessible()
    ann.main.get_by_label("Search by name").fill(f"yearly-{mark}")
    ann.page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
