"""Signing in, the frame around the pages, and the overview: what is broken right now?"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.objects import connect, make_system, make_template
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]


def test_an_organisation_without_projects_says_what_to_do_next(person: Person_, admin: Client) -> None:
    ann = person(admin)
    ann.sees("No project yet")
    ann.sees("tieline run examples/quickstart")
    ann.finds_it_accessible()


def test_a_token_that_is_not_valid_is_refused_and_not_shown(person: Person_, admin: Client) -> None:
    ann = person(admin)
    ann.button("Sign out").click()
    ann.page.get_by_label("Token or API key").fill("no-such-token")
    ann.button("Sign in").click()
    expect(ann.page.get_by_role("alert")).to_contain_text("The token is not valid")
    assert "no-such-token" not in ann.page.content()
    ann.finds_it_accessible()


def test_the_overview_shows_what_is_broken_and_leads_there(
    person: Person_, admin: Client, scene: Scene
) -> None:
    fine = scene.project("Fine")
    scene.environment_is(fine, status="running")
    scene.runs(fine, *(scene.succeeded(fine, ago=60) for _ in range(3)))
    broken = scene.project("Broken")
    scene.environment_is(broken, status="error", message="main.py does not load: no module named shop")
    scene.dead(broken, message="the shop is closed")
    ann = person(admin)
    attention = ann.region("Needs attention")
    expect(attention.get_by_role("link").first).to_contain_text("Broken · production is in error")
    expect(attention).to_contain_text("no module named shop")
    expect(attention).to_contain_text("1 dead letter of order.created")
    expect(attention).to_contain_text("the shop is closed")
    expect(attention).not_to_contain_text("Fine")
    expect(ann.region("Runs in the last 24 hours").get_by_label("4 runs, 1 of them failed")).to_be_visible()
    ann.finds_it_accessible()
    attention.get_by_role("link", name="dead letter").click()
    expect(ann.page).to_have_url(re.compile(r"/runs\?status=dead&task=order\.created&project="))
    expect(ann.page.get_by_role("link", name="order.created")).to_have_count(1)


def test_the_overview_tells_of_schedules_that_did_not_run_and_of_credentials_that_a_system_refuses(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Nightly work")
    scene.late(project, "nightly")
    _, template = make_template(admin)
    made = connect(admin, template, "key", name=f"Turned away {new_id()}")
    refused = {"status": 401, "count": 12, "since": "2026-11-25T10:00:00Z", "last": "2026-11-25T10:05:00Z"}
    scene.kubectl(
        *(
            "annotate",
            "connection",
            made["id"].lower(),
            f"tieline.dev/refused-requests={json.dumps(refused)}",
        ),
        namespace=scene.organisation.namespace,
    )
    ann = person(admin)
    attention = ann.region("Needs attention")
    expect(attention).to_contain_text("Schedule nightly did not run")
    expect(attention).to_contain_text("Nightly work · production")
    expect(attention).to_contain_text(f"{made['name']}: its system refuses the credentials")
    ann.finds_it_accessible()
    attention.get_by_role("link", name=made["name"]).click()
    note = ann.page.get_by_role("note", name="Refused by the system")
    expect(note).to_contain_text("at least 12 requests with 401")
    ann.finds_it_accessible()
    ann.open("/connections?state=refused")
    expect(ann.main.get_by_role("link", name=made["name"])).to_be_visible()
    ann.open("/overview")
    attention.get_by_role("link", name="nightly").click()
    expect(ann.page).to_have_url(re.compile(rf"/schedules\?project={project['id']}&environment=production"))


def test_what_changes_is_seen_without_a_reload(person: Person_, admin: Client, scene: Scene) -> None:
    ann = person(admin)
    later = scene.project("Made while somebody looks")
    ann.sees("Made while somebody looks")
    scene.environment_is(later, status="error", message="it broke while somebody looked")
    ann.sees("it broke while somebody looked")


def test_the_palette_finds_a_project_by_the_keyboard(person: Person_, admin: Client, scene: Scene) -> None:
    made = scene.project("Zebra stripes")
    ann = person(admin)
    ann.sees("Zebra stripes")
    ann.page.keyboard.press("Control+k")
    ann.page.keyboard.type("zebra")
    expect(ann.page.get_by_role("dialog").get_by_role("option")).to_have_count(1)
    ann.finds_it_accessible()
    ann.page.keyboard.press("Enter")
    expect(ann.page).to_have_url(re.compile(f"/projects/{made['id']}$"))
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Zebra stripes")


def test_the_palette_finds_systems_users_and_what_an_id_belongs_to(person: Person_, admin: Client) -> None:
    system = make_system(admin)
    name = f"Quokka {new_id()}"
    admin.ok("PUT", f"/systems/{system['id']}", {"name": name}, status=201)
    admin.ok("POST", "/users", {"externalId": f"of-{name}", "displayName": f"Friend of {name}"}, status=201)
    ann = person(admin)
    ann.page.keyboard.press("Control+k")
    ann.page.keyboard.type(name)
    options = ann.page.get_by_role("dialog").get_by_role("option")
    expect(options.filter(has_text="User of-Quokka")).to_be_visible()
    expect(options.filter(has_text="System")).to_be_visible()
    ann.page.get_by_role("combobox", name="Find").fill(system["id"].lower())
    options.filter(has_text="systems").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(name)


def test_in_a_small_window_the_pages_are_one_line_and_one_can_sign_out(
    person: Person_, admin: Client
) -> None:
    ann = person(admin)
    ann.page.set_viewport_size({"width": 420, "height": 800})
    ann.open("/notifications")
    expect(ann.page.get_by_role("link", name="Notifications")).to_be_in_viewport()
    top = ann.main.evaluate("main => main.getBoundingClientRect().top")
    assert top < 120, "most of the window is the page's"
    assert ann.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    ann.finds_it_accessible()
    ann.button("Sign out").click()
    expect(ann.page.get_by_label("Token or API key")).to_be_visible()


def test_the_theme_can_be_chosen_and_stays(person: Person_, admin: Client) -> None:
    ann = person(admin)
    background = "getComputedStyle(document.body).backgroundColor"
    light = ann.page.evaluate(background)
    ann.button("Light or dark").click()
    dark = ann.page.evaluate(background)
    assert dark != light
    ann.page.reload()
    expect(ann.page.get_by_role("heading", level=1)).to_be_visible()
    assert ann.page.evaluate(background) == dark


def test_the_overview_needs_little_script(person: Person_, admin: Client) -> None:
    ann = person(admin)
    scripts: dict[str, bytes] = {}
    ann.page.on(
        "response",
        lambda answer: scripts.update({answer.url: answer.body()}) if answer.url.endswith(".js") else None,
    )
    ann.page.reload()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Overview")
    ann.page.wait_for_load_state()
    assert scripts
    assert sum(len(gzip.compress(script)) for script in scripts.values()) < 150_000
