"""Releases: which version runs, who released it, what changed, and one click back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.console.test_issues import failed
from tests.integration.api.objects import bring_connection, make_system, stored
from tieline_core.credentials.refusals import ANNOTATION
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
TWO = "import os\n\nLIMIT = os.environ['LIMIT']\n"
CRASH = "The code crashed with exit code 1: KeyError: 'LIMIT', main.py:3"
TIMES = {"deployedAt": "2026-11-21T10:00:00Z", "servedFrom": "2026-11-21T10:00:20Z"}


@pytest.fixture
def crashed(admin: Client, scene: Scene, kubectl: Kubectl, acme: Organisation) -> dict[str, Any]:
    """A project whose second version crashes, after the first was healthy."""
    project = scene.project(f"Crashed {new_id()}")
    files = [{"filename": "main.py", "content": TWO}]
    body = {"files": files, "versionName": "v2", "message": "read the limit"}
    admin.ok("PUT", f"/projects/{project['id']}/deploy", body)
    versions = admin.ok("GET", f"/projects/{project['id']}/versions")["items"]
    second, first = (stored(kubectl, acme, "projectversion", one["id"]) for one in versions)
    note = stored(kubectl, acme, "project", project["id"])["spec"]["environments"][0]["deployNote"]

    def release(number: int, version: dict[str, Any], **fields: Any) -> dict[str, Any]:
        named = {"version": version["metadata"]["name"], "digest": version["spec"]["digest"]}
        return {"number": number, **named, **fields}

    failed = {"rollout": "failed", "reason": "Crashed", "failure": CRASH, "deployedAt": TIMES["deployedAt"]}
    scene.environment_is(
        project,
        status="error",
        message=f"production: {CRASH}\nTraceback (most recent call last):\n  main.py:3",
        desiredVersion=second["metadata"]["name"],
        rollout="failed",
        deployFailure="Crashed",
        healthyVersions=[{"name": first["metadata"]["name"], "digest": first["spec"]["digest"]}],
        releases=[
            release(2, second, **failed, by=note["by"], message=note["message"], revision="main@sha1:6d3c"),
            release(1, first, rollout="complete", healthy=True, servedUntil="2026-11-21T11:00:20Z", **TIMES),
        ],
    )
    return {**project, "first": versions[1]["id"], "second": versions[0]["id"]}


def test_an_issue_leads_to_the_release_since_which_it_fails(
    person: Person_, admin: Client, scene: Scene, crashed: dict[str, Any]
) -> None:
    task = f"since-{new_id()[-6:].lower()}"
    scene.runs(crashed, failed(scene, crashed, task, version=crashed["first"].lower()))
    ann = person(admin)
    ann.region("Needs attention").get_by_role("link", name=task).click()
    ann.region("About").get_by_role("link", name="(release 1)").first.click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Release 1 of production")


def test_three_clicks_say_what_broke_who_released_it_and_what_changed(
    person: Person_, admin: Client, crashed: dict[str, Any]
) -> None:
    ann = person(admin)
    ann.region("Projects").get_by_role("link", name=crashed["name"]).click()
    broken = ann.region("What is wrong with production")
    expect(broken).to_contain_text("KeyError: 'LIMIT', main.py:3")
    expect(broken).to_contain_text("Nothing serves, v2 is desired")
    releases = ann.region("Releases")
    expect(releases.get_by_role("link").first).to_contain_text("KeyError")
    expect(releases.get_by_role("link").nth(1)).to_contain_text("replaced")
    ann.finds_it_accessible()

    broken.get_by_role("link", name="Release 2: what changed").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Release 2 of production")
    expect(ann.region("What changed")).to_contain_text("+ LIMIT = os.environ['LIMIT']")
    about = ann.region("About")
    for text in ("read the limit", "main@sha1:6d3c", "admin"):
        expect(about).to_contain_text(text)
    ann.finds_it_accessible()


def test_one_click_leads_back_to_the_last_healthy_version(
    person: Person_, admin: Client, kubectl: Kubectl, acme: Organisation, crashed: dict[str, Any]
) -> None:
    ann = person(admin)
    ann.open(f"/projects/{crashed['id']}")
    ann.region("What is wrong with production").get_by_role("button", name="Roll back to v1…").click()
    dialog = ann.page.get_by_role("dialog")
    expect(dialog).to_contain_text("- LIMIT = os.environ['LIMIT']")
    dialog.get_by_label("Message").fill("the limit is not set")
    dialog.get_by_role("button", name="Roll back").click()
    expect(dialog).to_have_count(0)
    environment = stored(kubectl, acme, "project", crashed["id"])["spec"]["environments"][0]
    assert environment["version"] == crashed["first"].lower()
    assert environment["deployNote"]["message"] == "the limit is not set"


def test_a_run_leads_to_its_release(
    person: Person_, admin: Client, scene: Scene, crashed: dict[str, Any]
) -> None:
    run = scene.dead(crashed, version=crashed["second"].lower())
    ann = person(admin)
    ann.open(f"/runs?project={crashed['id']}")
    expect(ann.main.get_by_role("link", name="order.created")).to_contain_text("v2")
    ann.open(f"/projects/{crashed['id']}/runs/{run}")
    ann.region("About").get_by_role("link", name="v2 (release 2)").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Release 2 of production")


def test_a_connection_says_the_last_refusal_and_where_git_has_its_values(
    person: Person_, admin: Client, kubectl: Kubectl, acme: Organisation
) -> None:
    system, name = make_system(admin), f"brought-{new_id().lower()}"
    key = {"id": "key", "type": "string", "authSchemeConfigId": "key", "expiresAt": "2026-01-01T00:00:00Z"}
    bring_connection(
        kubectl, acme.namespace, name=name, system=system["id"], credential=key, values={"value": "a"}
    )
    kubectl("label", "secret", name, "kustomize.toolkit.fluxcd.io/name=apps", namespace=acme.namespace)
    refusal = {
        "status": 401,
        "count": 2,
        "since": "2026-11-20T10:00:00Z",
        "last": "2026-11-20T10:05:00Z",
        "accepted": "2026-11-20T11:00:00Z",
        "said": "unknown key",
    }
    kubectl("annotate", "connection", name, f"{ANNOTATION}={json.dumps(refusal)}", namespace=acme.namespace)
    where = f"/connections?system_id={system['id']}"
    eventually(
        "the refusal", lambda: [one for one in admin.ok("GET", where)["items"] if "lastRefusal" in one]
    )

    ann = person(admin)
    ann.main.get_by_role("link", name="Expires soon").click()
    ann.main.get_by_role("link", name=name).click()
    expect(ann.region("Credentials")).to_contain_text('managed by Flux (Kustomization "apps")')
    expect(ann.region("Credentials").get_by_role("button", name="Rotate")).to_have_count(0)
    expect(ann.region("About")).to_contain_text("with 401: “unknown key”")
    ann.button("Check now").wait_for()
    ann.finds_it_accessible()
