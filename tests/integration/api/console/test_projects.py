"""A project: what runs where? And changing that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
TWO = "from tieline import Integration\n\nintegration = Integration()\nLIMIT = 2\n"


def test_environments_say_their_version_and_what_is_wrong(
    person: Person_, viewer: Client, scene: Scene
) -> None:
    project = scene.project("Side by side")
    scene.environment_is(project, status="error", message="no pod starts")
    ann = person(viewer)
    ann.open(f"/projects/{project['id']}")
    card = ann.region("Environment production")
    expect(card).to_contain_text("error")
    expect(card).to_contain_text("no pod starts")
    expect(ann.region("Versions")).to_contain_text("v1")
    for name in ("Deploy", "Promote", "Suspend"):
        ann.sees_no("button", name)
    ann.finds_it_accessible()


def test_the_code_is_shown_and_cannot_be_typed_into(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Code", code=TWO)
    ann = person(admin)
    ann.open(f"/projects/{project['id']}")
    code = ann.page.get_by_label("The file main.py")
    expect(code).to_contain_text("integration = Integration()")
    code.click()
    ann.page.keyboard.type("broken")
    expect(code).not_to_contain_text("broken")


def test_findings_stand_at_their_lines(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Findings", code=TWO)
    broken = [{"filename": "main.py", "content": f"{TWO}def total(:\n    return 1\n"}]
    admin.ok("PUT", f"/projects/{project['id']}/files", {"files": broken, "labels": {}})
    ann = person(admin)
    ann.open(f"/projects/{project['id']}")
    found = ann.page.get_by_role("list", name="Findings")
    expect(found).to_contain_text("main.py:5")
    expect(ann.page.locator(".cm-finding")).to_have_text("def total(:")
    ann.finds_it_accessible()


def test_findings_of_a_project_with_two_environments_are_asked_for_one(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Two environments", code=TWO)
    admin.ok("POST", f"/projects/{project['id']}/environments", {"name": "staging"})
    ann = person(admin)
    with ann.page.expect_response(lambda one: "/validate" in one.url) as asked:
        ann.open(f"/projects/{project['id']}")
    assert asked.value.status == 200
    expect(ann.page.get_by_label("The file main.py")).to_be_visible()
    expect(ann.page.get_by_role("alert")).to_have_count(0)


def test_a_webhook_is_called_and_its_answer_is_shown(person: Person_, admin: Client, scene: Scene) -> None:
    """Against an answer that this test makes, because this API has no operation that calls webhooks yet."""
    project = scene.project("Called")
    scene.environment_is(project, status="running")
    ann = person(admin)
    sent: list[Any] = []

    def serve(route: Route) -> None:
        sent.append(route.request.post_data_json)
        answer = {"status": 422, "headers": {}, "body": "the order has no total", "bodyEncoding": "text"}
        route.fulfill(json=answer)

    ann.page.route("**/environments/call?*", serve)
    ann.open(f"/projects/{project['id']}")
    webhooks = ann.region("Webhooks")
    webhooks.get_by_label("Path").fill("/orders")
    webhooks.get_by_label("Body").fill('{"order": 7}')
    webhooks.get_by_role("button", name="Call").click()
    expect(webhooks).to_contain_text("The webhook answered 422")
    expect(webhooks).to_contain_text("the order has no total")
    headers = {"Content-Type": "application/json"}
    body = {"body": '{"order": 7}', "bodyEncoding": "text"}
    assert sent == [{"method": "POST", "urlPath": "/orders", "headers": headers, **body}]


def test_a_deploy_shows_what_changes_and_makes_a_version(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Deployed", code=TWO)
    admin.ok(
        "PUT",
        f"/projects/{project['id']}/files",
        {"files": [{"filename": "main.py", "content": TWO.replace("LIMIT = 2", "LIMIT = 3")}], "labels": {}},
    )
    ann = person(admin)
    ann.open(f"/projects/{project['id']}")
    ann.region("Environment production").get_by_role("button", name="Deploy").click()
    changes = ann.page.get_by_role("dialog").get_by_label("Changes of main.py")
    expect(changes).to_contain_text("LIMIT = 3")
    ann.finds_it_accessible()
    ann.page.get_by_role("dialog").get_by_role("button", name="Deploy").click()
    expect(ann.page.get_by_role("dialog")).to_have_count(0)
    versions = admin.ok("GET", f"/projects/{project['id']}/versions")["items"]
    assert len(versions) == 2
    expect(ann.region("Versions")).to_contain_text(versions[0]["id"])
    expect(ann.region("Versions")).to_contain_text("by admin")
    expect(ann.region("Environment production")).to_contain_text("version by admin")


def test_an_environment_is_rolled_back_to_a_version(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Back", code=TWO)
    first = admin.ok("GET", f"/projects/{project['id']}/versions")["items"][0]["id"]
    changed = [{"filename": "main.py", "content": TWO.replace("2", "4")}]
    admin.ok("PUT", f"/projects/{project['id']}/deploy", {"files": changed, "versionName": "v2"})
    ann = person(admin)
    ann.open(f"/projects/{project['id']}")
    ann.region("Environment production").get_by_role("button", name="Deploy").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("What").select_option(first)
    dialog.get_by_role("button", name="Deploy").click()
    expect(dialog).to_have_count(0)
    after = admin.ok("GET", f"/projects/{project['id']}")["environments"][0]
    assert after["deployedVersion"]["id"] == first


def test_a_running_environment_is_suspended(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Suspended")
    scene.environment_is(project, status="running")
    ann = person(admin)
    ann.open(f"/projects/{project['id']}")
    ann.button("Suspend…").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Suspend").click()
    expect(ann.page.get_by_role("dialog")).to_have_count(0)
    spec = scene.kubectl(
        *("get", "project", project["id"].lower(), "-o", "jsonpath={.spec.environments[0].suspended}"),
        namespace=scene.organisation.namespace,
    )
    assert spec.stdout == "true"


def test_a_project_that_is_not_there_says_so(person: Person_, admin: Client) -> None:
    ann = person(admin)
    ann.open("/projects/01JD3Y7M5RZX9KQW8T2V4N6P0A")
    expect(ann.page.get_by_role("alert")).to_contain_text("There is no project")


def test_many_projects_are_listed_without_all_being_in_the_page(
    person: Person_, admin: Client, scene: Scene
) -> None:
    for number in range(60):
        admin.ok("POST", "/projects", {"name": f"Project number {number}"})
    ann = person(admin)
    ann.open("/projects?search=project+number")
    ann.sees("60 of")
    assert ann.main.get_by_role("link", name="Project number").count() < 60
    ann.page.get_by_label("Search by name").fill("number 59")
    expect(ann.main.get_by_role("link", name="Project number")).to_have_count(1)
