"""Access and changes: who may do what, API keys, and who changed what."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.harness.cluster.kubectl import Kubectl
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]


def test_who_has_no_role_is_told_the_command_that_gives_one(
    person: Callable[..., Person],
    admin: Client,
    scene: Scene,
    kubectl: Kubectl,
    token_for: Callable[..., str],
) -> None:
    namespace = scene.organisation.namespace
    newcomer = Client(admin.url, token_for(namespace, "newcomer", None), admin.organisation)
    ann = person(newcomer, heading="newcomer is in no organisation yet")
    ann.finds_it_accessible(zoomed=True)
    shown = ann.page.get_by_text("kubectl create rolebinding").inner_text()
    kubectl(*shlex.split(shown.replace("NAMESPACE", namespace))[1:])
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_an_api_key_is_made_shown_once_and_revoked(person: Person_, admin: Client, scene: Scene) -> None:
    user = f"ci-{new_id()[-6:].lower()}"
    ann = person(admin)
    ann.open("/access")
    ann.button("New key…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("The user that the key acts as").fill(user)
    dialog.get_by_label("Valid for").select_option("30")
    dialog.get_by_label("Role").select_option("")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_contain_text("it is not shown again")
    key = str(dialog.get_by_role("button", name="Copy: tlk_").get_attribute("aria-label"))[len("Copy: ") :]
    subject = f"tieline:api-key:{scene.organisation.id.lower()}:{user}"
    expect(dialog).to_contain_text(f"--user='{subject}'")
    ann.finds_it_accessible()
    by_key = Client(admin.url, None, admin.organisation, {"X-API-Key": key})
    assert by_key("GET", "/projects").status == 404, "the key is known, and has no role yet"
    dialog.get_by_role("button", name="I have stored it").click()
    row = ann.region(f"API key of {user}")
    expect(row).to_contain_text("no role")
    expect(row).to_contain_text("ends in 29 d")
    assert key not in ann.page.content()
    ann.finds_it_accessible()
    row.get_by_role("button", name="Revoke").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Revoke", exact=True).click()
    expect(row).to_have_count(0)
    assert by_key("GET", "/projects").status == 401


def test_a_key_that_is_refused_says_why(person: Person_, admin: Client, scene: Scene) -> None:
    user = f"boss-{new_id()[-6:].lower()}"
    subject = f"--user=tieline:api-key:{scene.organisation.id.lower()}:{user}"
    scene.kubectl(
        *("create", "rolebinding", user, "--clusterrole=admin", subject),
        namespace=scene.organisation.namespace,
    )
    known = "/role-bindings?first=200"
    eventually("the binding", lambda: user in [one["name"] for one in admin.ok("GET", known)["items"]])
    ann = person(admin)
    ann.open("/access")
    ann.button("New key…").click()
    ann.page.get_by_label("The user that the key acts as").fill(user)
    ann.page.get_by_role("dialog").get_by_role("button", name="Create").click()
    expect(ann.page.get_by_role("alert")).to_contain_text("may do more than you")


def test_roles_say_who_has_them(person: Person_, viewer: Client, scene: Scene) -> None:
    scene.kubectl(
        *("create", "rolebinding", "the-ops", "--clusterrole=tieline-editor", "--group=login:ops"),
        namespace=scene.organisation.namespace,
    )
    ann = person(viewer)
    ann.open("/access")
    roles = ann.region("Roles")
    expect(roles).to_contain_text("login:ops")
    expect(roles).to_contain_text("editor")
    expect(ann.main.get_by_role("link", name="Notification channels")).to_be_visible()
    ann.sees_no("button", "New key")
    ann.sees_no("button", "Revoke")


def test_changes_say_who_made_them_and_what_the_platform_found(
    person: Person_, admin: Client, viewer: Client, scene: Scene
) -> None:
    project = scene.project("Watched")
    of_git(scene, project["id"], {"runtime": {"replicas": 3}})
    ann = person(viewer)
    ann.open("/access")
    changes = ann.page.get_by_role("list", name="Changes").get_by_role("listitem").filter(has_text="Watched")
    expect(changes.filter(has_text="argocd-controller")).to_contain_text("spec.runtime.replicas")
    expect(changes.filter(has_text="REST or this console").first).to_be_visible()
    ann.finds_it_accessible()


def of_git(scene: Scene, identifier: str, spec: object) -> None:
    """A GitOps tool owns a part of a project."""
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": identifier.lower()},
        "spec": spec,
    }
    scene.kubectl(
        *("apply", "--server-side", "--field-manager=argocd-controller", "-f", "-"),
        namespace=scene.organisation.namespace,
        stdin=json.dumps(manifest),
    )
