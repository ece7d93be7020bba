"""The first run: from an empty organisation to a project that is deployed and called, without leaving the console."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.console.hostile import BIDI, MARKUP
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.engine_objects import make_streams

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
CODE = "from tieline import Integration\n\nintegration = Integration()\nLIMIT = 2\n"
BUDGET_OF_CLICKS = 5


@dataclass
class Counting:
    """Clicks and texts that somebody has to enter."""

    person: Person
    steps: list[str] = field(default_factory=list)

    def click(self, target: Locator, what: str) -> None:
        self.steps.append(f"click {what}")
        target.click()


def test_from_an_empty_organisation_to_a_called_project_in_five_clicks(
    person: Person_, admin: Client, scene: Scene
) -> None:
    ann = person(admin)
    counting = Counting(ann)
    ann.sees("No project yet")
    ann.finds_it_accessible()
    counting.click(ann.main.get_by_role("link", name="New project"), "New project")
    hello = ann.page.get_by_label("Answer a webhook")
    expect(hello).to_be_checked()
    expect(ann.page).to_have_title("New project · Tieline")
    ann.finds_it_accessible()
    counting.click(ann.button("Create project"), "Create project")

    text = ann.page.get_by_label("The file main.py")
    expect(text).to_contain_text("integration.webhook")
    expect(ann.page.get_by_role("status", name="Check")).to_have_text("Checked: nothing was found.")
    ann.finds_it_accessible()
    counting.click(ann.button("Save and deploy"), "Save and deploy")
    expect(ann.page.get_by_text("Deployed to production: accepted")).to_be_visible()
    (item,) = admin.ok("GET", "/projects")["projects"]
    made = admin.ok("GET", f"/projects/{item['id']}")
    deployed = made["environments"][0]["deployedVersion"]
    assert deployed["createdBy"]
    assert made["currentFiles"]["files"][0]["content"].startswith('"""Hello')

    run = scene.succeeded(made, kind="webhook", task="hello")
    scene.environment_is(made, status="running")
    sent = _answering(ann, run.id, '{"message": "Hello, Ann!"}')
    webhooks = ann.region("Webhooks")
    expect(webhooks.get_by_label("Path")).to_have_value("/hello")
    counting.click(webhooks.get_by_role("button", name="Call"), "Call")
    expect(webhooks).to_contain_text("The webhook answered 200")
    assert json.loads(sent[0]["body"]) == {"name": "Ann"}
    assert sent[0]["urlPath"] == "/hello"
    beside = ann.region("The run")
    expect(beside).to_contain_text(run.id)
    environment = made["environments"][0]["id"]
    scene.apart(lambda: make_streams(scene.engine, scene.organisation.id, environment))
    scene.runs(made, run)
    expect(beside).to_contain_text("succeeded")
    expect(beside.get_by_role("link", name="Open it")).to_have_attribute(
        "href", f"/console/{ann.namespace}/projects/{item['id']}/runs/{run.id}"
    )
    ann.finds_it_accessible()
    assert len(counting.steps) <= BUDGET_OF_CLICKS, counting.steps


def test_what_is_wrong_stands_at_its_line_while_one_types_and_a_deploy_is_refused_there(
    person: Person_, admin: Client
) -> None:
    project = _project(admin, "Typing")
    ann = person(admin)
    ann.open(f"/projects/{project}/edit")
    _types(ann, "def total(:\n")
    finding = ann.page.locator(".cm-finding")
    expect(finding).to_contain_text("def total(:")
    listed = ann.page.get_by_role("list", name="Findings")
    expect(listed).to_contain_text("main.py:5")
    ann.finds_it_accessible()
    ann.button("Save and deploy").click()
    expect(ann.page.get_by_role("alert")).to_contain_text("files[main.py]:5")
    expect(finding).to_contain_text("def total(:")
    assert admin.ok("GET", f"/projects/{project}/files")["files"][0]["content"] == CODE
    ann.page.get_by_label("The file main.py").click()
    ann.page.keyboard.press("Control+A")
    ann.page.keyboard.press("Delete")
    ann.page.keyboard.type(CODE)
    expect(listed).to_have_count(0)
    expect(ann.page.get_by_role("status", name="Check")).to_have_text("Checked: nothing was found.")


def test_offline_the_text_stays_and_the_check_comes_back(person: Person_, admin: Client) -> None:
    project = _project(admin, "Offline")
    ann = person(admin)
    ann.open(f"/projects/{project}/edit")
    check = ann.page.get_by_role("status", name="Check")
    expect(check).to_have_text("Checked: nothing was found.")
    ann.page.context.set_offline(True)
    _types(ann, "def total(:\n")
    expect(check).to_contain_text("Offline")
    ann.button("Save and deploy").click()
    expect(ann.page.get_by_role("alert")).to_contain_text("does not respond")
    expect(ann.page.get_by_label("The file main.py")).to_contain_text("def total(:")
    ann.page.context.set_offline(False)
    expect(ann.page.locator(".cm-finding")).to_contain_text("def total(:")


def test_names_are_completed(person: Person_, admin: Client) -> None:
    project = _project(admin, "Completing")
    ann = person(admin)
    ann.open(f"/projects/{project}/edit")
    _types(ann, "@integration.web")
    option = ann.page.get_by_role("option", name="webhook")
    expect(option).to_be_visible()
    option.click()
    expect(ann.page.get_by_label("The file main.py")).to_contain_text("@integration.webhook")


def test_text_that_is_not_saved_survives_a_reload_and_a_session_that_ends(
    person: Person_, admin: Client
) -> None:
    project = _project(admin, "Kept")
    ann = person(admin)
    ann.open(f"/projects/{project}/edit")
    _types(ann, "KEPT = 1  # soon")
    ann.page.get_by_label("What changed").fill("Keep it")
    ann.page.reload()
    text = ann.page.get_by_label("The file main.py")
    expect(text).to_contain_text("KEPT = 1")
    expect(ann.page.get_by_label("What changed")).to_have_value("Keep it")
    _types(ann, "!")
    ann.page.context.clear_cookies()
    ann.page.evaluate("fetch('/console/session', {method: 'DELETE', headers: {'X-Tieline-Console': '1'}})")
    ann.page.reload()
    ann.page.get_by_label("Token or API key").fill(str(admin.token))
    ann.button("Sign in").click()
    expect(text).to_contain_text("KEPT = 1  # soon!")
    ann.button("Save and deploy").click()
    expect(ann.page.get_by_text("Saved.")).to_be_visible()
    (version,) = admin.ok("GET", f"/projects/{project}/versions")["items"]
    assert version["description"] == "Keep it"
    ann.page.reload()
    expect(text).to_contain_text("KEPT = 1")
    assert "KEPT" in admin.ok("GET", f"/projects/{project}/files")["files"][0]["content"]


def test_of_two_editors_of_a_file_none_loses_anything_unseen(person: Person_, admin: Client) -> None:
    project = _project(admin, "Two editors", {"main.py": CODE, "other.py": "A = 1\n"})
    ann, bob = person(admin), person(admin)
    for one in (ann, bob):
        one.open(f"/projects/{project}/edit")
    _types(ann, "ANN = 1\n")
    _types(bob, "BOB = 1\n")
    ann.button("Save and deploy").click()
    expect(ann.page.get_by_text("Saved.")).to_be_visible()
    conflicts = bob.region("Conflicts")
    expect(conflicts).to_contain_text("+ BOB = 1")
    expect(conflicts).to_contain_text("- ANN = 1")
    expect(bob.button("Save and deploy")).to_be_disabled()
    bob.finds_it_accessible()
    bob.page.reload()
    bob.button("Keep mine: main.py").click()
    bob.button("Save and deploy").click()
    expect(bob.page.get_by_text("Saved.")).to_be_visible()
    files = {
        one["filename"]: one["content"] for one in admin.ok("GET", f"/projects/{project}/files")["files"]
    }
    assert "BOB" in files["main.py"]
    assert "ANN" not in files["main.py"]
    expect(ann.page.get_by_label("The file main.py")).to_contain_text("BOB = 1")


def test_changes_of_other_files_are_merged(person: Person_, admin: Client) -> None:
    project = _project(admin, "Merged", {"main.py": CODE, "other.py": "A = 1\n"})
    ann = person(admin)
    ann.open(f"/projects/{project}/edit")
    _types(ann, "ANN = 1\n")
    patch = {"files": [{"filename": "other.py", "content": "A = 2\n"}], "labels": {}}
    admin.ok("PATCH", f"/projects/{project}/files", patch, status=204)
    ann.sees("Their changes are merged with yours")
    ann.button("Save and deploy").click()
    expect(ann.page.get_by_text("Saved.")).to_be_visible()
    files = {
        one["filename"]: one["content"] for one in admin.ok("GET", f"/projects/{project}/files")["files"]
    }
    assert "ANN = 1" in files["main.py"]
    assert files["other.py"] == "A = 2\n"


def test_files_that_others_own_are_read_only_with_the_reason(
    person: Person_, admin: Client, kubectl: Kubectl, acme: Organisation
) -> None:
    name = "from-git"
    code = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-code"},
        "data": {"main.py": CODE},
    }
    project = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {
            "name": name,
            "annotations": {
                "argocd.argoproj.io/tracking-id": "acme-apps:tieline.dev/Project:acme/x",
                "tieline.dev/source-repository": "https://git.example/acme/apps",
            },
        },
        "spec": {
            "name": "From Git",
            "source": {"configMaps": [{"name": f"{name}-code"}]},
            "environments": [{"name": "production"}],
        },
    }
    for one in (code, project):
        kubectl(
            *("apply", "--server-side", "--field-manager=argocd-controller", "-f", "-"),
            stdin=json.dumps(one),
            namespace=acme.namespace,
        )
    eventually("the project there", lambda: "From Git" in ids(admin))
    ann = person(admin)
    ann.open(f"/projects/{ids(admin)['From Git']}/edit")
    reason = ann.page.get_by_role("note", name="Read-only")
    expect(reason).to_contain_text('Argo CD (Application "acme-apps") manages the files')
    expect(reason).to_contain_text("commit the files there")
    repository = reason.get_by_role("link", name="https://git.example/acme/apps")
    expect(repository).to_have_attribute("href", "https://git.example/acme/apps")
    ann.sees_no("button", "Save and deploy")
    text = ann.page.get_by_label("The file main.py")
    text.click()
    ann.page.keyboard.type("broken")
    expect(text).not_to_contain_text("broken")
    ann.finds_it_accessible()


def test_what_a_template_needs_is_added_on_the_way_from_the_catalogue(person: Person_, admin: Client) -> None:
    ann = person(admin)
    ann.open("/new-project")
    ann.page.get_by_label("Post a message to Slack").check()
    ann.page.get_by_label("Name", exact=True).fill("Messages")
    ann.button("Create project").click()
    needs = ann.region("Connections that the code needs")
    expect(needs).to_contain_text("The workspace that messages are posted to")
    ann.finds_it_accessible()
    needs.get_by_text("From the catalogue…").click()
    ann.sees("A project needs it under the name slack")
    ann.page.get_by_label("bot token").check()
    ann.button("Add and connect…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("Key (sent as Authorization)").fill("xoxb-only-a-test")
    dialog.get_by_role("button", name="Create").click()
    expect(ann.page.get_by_label("The file main.py")).to_contain_text("chat.postMessage")
    expect(needs).to_have_count(0)
    ann.button("Save and deploy").click()
    expect(ann.page.get_by_text("Deployed to production: accepted")).to_be_visible()
    assert "xoxb" not in ann.page.evaluate("JSON.stringify(sessionStorage)")


def test_a_system_of_ones_own_is_added_on_the_way(person: Person_, admin: Client) -> None:
    project = _project(
        admin, "Own API", {"main.py": f'{CODE}\nasync def send(ctx):\n    await ctx.fetch("depot", "/")\n'}
    )
    ann = person(admin)
    ann.open(f"/projects/{project}/edit")
    expect(ann.page.get_by_role("list", name="Findings")).to_contain_text("depot")
    ann.button("Your own API…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("Base URL").fill("https://depot.example/api")
    dialog.get_by_role("button", name="Add").click()
    dialog.get_by_label("Key (sent as X-API-Key)").fill("only-a-test")
    expect(ann.page.get_by_role("dialog", name="Connect depot")).to_be_visible()
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("depot")
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Create").click()
    expect(ann.region("Connections that the code needs")).to_have_count(0)
    expect(ann.page.get_by_role("status", name="Check")).to_have_text("Checked: nothing was found.")


def test_two_hundred_files_and_hostile_ones_open_and_stay_text(person: Person_, admin: Client) -> None:
    files = {f"part{number:03}/code.py": f"NUMBER = {number}\n" for number in range(200)}
    hostile = f"{MARKUP.replace('/', '')[:120]}.py"
    project = _project(admin, "Many", {"main.py": CODE, hostile: f"# {MARKUP} {BIDI}\n", **files})
    ann = person(admin)
    ann.open(f"/projects/{project}/edit")
    expect(ann.page.get_by_label("The file main.py")).to_be_visible()
    listed = ann.page.get_by_role("navigation", name="Files")
    expect(listed.get_by_role("button")).to_have_count(202)
    listed.get_by_role("button", name="onerror").click()
    expect(ann.page.get_by_label("onerror").first).to_contain_text("img src=x")
    listed.get_by_role("button", name="part199/code.py").click()
    _types(ann, "MORE = 1\n", "part199/code.py")
    expect(listed.get_by_role("button", name="part199/code.py")).to_contain_text("•")


def test_files_are_added_and_deleted(person: Person_, admin: Client) -> None:
    project = _project(admin, "Files", {"main.py": CODE, "old.py": ""})
    ann = person(admin)
    ann.open(f"/projects/{project}/edit")
    ann.page.get_by_role("navigation", name="Files").get_by_role("button", name="old.py").click()
    ann.button("Delete…").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    ann.button("New file…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("Path").fill("../evil.py")
    expect(dialog).to_contain_text("no empty parts")
    expect(dialog.get_by_role("button", name="Add")).to_be_disabled()
    dialog.get_by_label("Path").fill("shop/orders.yaml")
    dialog.get_by_role("button", name="Add").click()
    _types(ann, "a: 1\n", "shop/orders.yaml")
    ann.button("Save and deploy").click()
    expect(ann.page.get_by_text("Saved.")).to_be_visible()
    files = {
        one["filename"]: one["content"] for one in admin.ok("GET", f"/projects/{project}/files")["files"]
    }
    assert files == {"main.py": CODE, "shop/orders.yaml": "a: 1\n"}


def test_a_file_is_renamed_and_moved_with_its_unsaved_text(person: Person_, admin: Client) -> None:
    project = _project(admin, "Renamed", {"main.py": f"import orders\n{CODE}", "orders.py": "A = 1\n"})
    ann = person(admin)
    ann.open(f"/projects/{project}/edit")
    listed = ann.page.get_by_role("navigation", name="Files")
    listed.get_by_role("button", name="orders.py").click()
    _types(ann, "B = 2\n", "orders.py")
    listed.get_by_role("button", name="orders.py").focus()
    ann.page.keyboard.press("F2")
    dialog = ann.page.get_by_role("dialog", name="Rename orders.py")
    path = dialog.get_by_label("Path")
    expect(path).to_have_value("orders.py")
    expect(path).to_be_focused()
    expect(dialog).to_contain_text("main.py imports this module")
    rename = dialog.get_by_role("button", name="Rename")
    for refused, why in (
        ("orders.py", "another path"),
        ("main.py", "There is a file"),
        ("/x.py", "relative"),
    ):
        path.fill(refused)
        expect(dialog.get_by_role("status")).to_contain_text(why)
        expect(rename).to_be_disabled()
    path.fill("shop/orders.py")
    ann.finds_it_accessible()
    ann.page.keyboard.press("Enter")
    expect(ann.page.get_by_role("status").filter(has_text="orders.py is now shop/orders.py.")).to_be_visible()
    expect(listed.get_by_role("button", name="shop/orders.py")).to_be_focused()
    text = ann.page.get_by_label("The file shop/orders.py")
    expect(text).to_contain_text("B = 2")
    ann.page.reload()
    listed.get_by_role("button", name="shop/orders.py").click()
    expect(text).to_contain_text("B = 2")
    ann.button("Save and deploy").click()
    expect(ann.page.get_by_text("Saved.")).to_be_visible()
    files = {
        one["filename"]: one["content"] for one in admin.ok("GET", f"/projects/{project}/files")["files"]
    }
    assert files == {"main.py": f"import orders\n{CODE}", "shop/orders.py": "A = 1\nB = 2\n"}


def test_a_viewer_reads_and_is_offered_no_change(person: Person_, admin: Client, viewer: Client) -> None:
    project = _project(admin, "Seen")
    ann = person(viewer)
    ann.open("/new-project")
    ann.sees("An editor makes projects")
    ann.open(f"/projects/{project}/edit")
    expect(ann.page.get_by_label("The file main.py")).to_contain_text("LIMIT = 2")
    for name in ("Save and deploy", "New file…", "Rename…", "Call"):
        ann.sees_no("button", name)


def ids(admin: Client) -> dict[str, str]:
    """The ids of projects by their names."""
    return {one["name"]: one["id"] for one in admin.ok("GET", "/projects")["projects"]}


def _project(admin: Client, name: str, files: dict[str, str] | None = None) -> str:
    """The id of a project with files that nobody has deployed."""
    made = admin.ok("POST", "/projects", {"name": name})
    given = [{"filename": path, "content": content} for path, content in (files or {"main.py": CODE}).items()]
    admin.ok("PUT", f"/projects/{made['id']}/files", {"files": given, "labels": {}})
    return str(made["id"])


def _types(ann: Person, text: str, filename: str = "main.py") -> None:
    """Types at the end of a file."""
    ann.page.get_by_label(f"The file {filename}").click()
    ann.page.keyboard.press("Control+End")
    ann.page.keyboard.type(text)


def _answering(ann: Person, run: str, body: str) -> list[Any]:
    """Webhooks answer so: no pod serves on this cluster. Returns what was sent."""
    sent: list[Any] = []

    def serve(route: Route) -> None:
        sent.append(route.request.post_data_json)
        headers = {"X-Tieline-Execution-Id": run, "Content-Type": "application/json"}
        route.fulfill(json={"status": 200, "headers": headers, "body": body, "bodyEncoding": "text"})

    ann.page.route("**/environments/call?*", serve)
    return sent
