"""Signing in, the frame around the pages, and the overview: what is broken right now?"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Response, Route, expect

from tests.harness.cluster.kubectl import ROOT, Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.objects import connect, make_system, make_template
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunError

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]


def test_an_organisation_without_projects_says_what_to_do_next(person: Person_, admin: Client) -> None:
    ann = person(admin)
    ann.sees("No project yet")
    ann.sees("tieline init orders")
    expect(ann.page).to_have_title("Overview · Tieline")
    # The text of a button is readable under the mouse, too.
    ann.main.get_by_role("link", name="New project").hover()
    ann.finds_it_accessible()


def test_a_page_that_does_not_exist_leads_back(person: Person_, admin: Client) -> None:
    ann = person(admin)
    ann.open("/nowhere")
    ann.sees("Page not found")
    ann.finds_it_accessible(zoomed=True)
    ann.main.get_by_role("link", name="Overview").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_the_example_of_an_empty_organisation_can_be_applied(
    person: Person_, admin: Client, kubectl: Kubectl, acme: Organisation
) -> None:
    ann = person(admin)
    command = ann.main.locator(".command", has_text="kubectl").locator("span").first.inner_text()
    trial = command.replace("kubectl apply", "kubectl apply --dry-run=server")
    done = subprocess.run(
        ["sh", "-c", f'kubectl() {{ {shlex.join(kubectl.argv)} "$@"; }}\n{trial}'],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "project.tieline.dev/order-sync created" in done.stdout
    assert "namespace/" not in done.stdout


def test_a_token_that_is_not_valid_is_refused_and_not_shown(person: Person_, admin: Client) -> None:
    ann = person(admin)
    ann.button("Sign out").click()
    ann.page.get_by_label("Token or API key").fill("no-such-token")
    ann.button("Sign in").click()
    expect(ann.page.get_by_role("alert")).to_contain_text("Invalid or expired token")
    assert "no-such-token" not in ann.page.content()
    ann.finds_it_accessible(zoomed=True)


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
    expect(attention).to_contain_text("the shop is closed")
    expect(attention.get_by_role("link", name="order.created")).to_have_count(1)
    expect(attention).not_to_contain_text("Fine")
    expect(ann.region("Runs in the last 24 hours").get_by_label("4 runs, 1 of them failed")).to_be_visible()
    ann.finds_it_accessible()
    attention.get_by_role("link", name="order.created").click()
    ann.region("Latest runs").get_by_role("link", name="All 1").click()
    expect(ann.region("Runs").get_by_role("link", name="order.created")).to_have_count(1)


def test_failing_schedules_and_direct_webhooks_need_attention(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Failing quietly")
    error = RunError(type="KeyError", message="'DATABASE_URL'")
    failed = {"status": "failed", "error": error}
    scene.runs(
        project,
        *(replace(scene.succeeded(project, kind="schedule", task="hourly"), **failed) for _ in range(2)),
        replace(scene.succeeded(project, kind="webhook", task="checkout"), **failed),
    )
    ann = person(admin)
    attention = ann.region("Needs attention")
    expect(attention).to_contain_text("hourly: KeyError")
    expect(attention).to_contain_text("checkout: KeyError")
    expect(attention).to_contain_text("2 runs, since v1")
    expect(attention).to_contain_text("DATABASE_URL")
    expect(attention).not_to_contain_text("Nothing is broken")
    attention.get_by_role("link", name="hourly").click()
    ann.region("Latest runs").get_by_role("link", name="All 2").click()
    ann.sees("2 runs, the newest first")
    ann.open("/overview")
    tile = ann.main.get_by_role("link", name="Failed, 24 h")
    expect(tile.locator(".big")).to_have_text(re.compile(r"\d"))
    count = tile.locator(".big").inner_text()
    tile.click()
    expect(ann.main.locator("summary", has_text="Status: failed, dead")).to_be_visible()
    ann.sees(f"{count} run")


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


def test_offline_it_says_so_at_once_and_a_page_loads_when_the_network_is_back(
    person: Person_, admin: Client, scene: Scene
) -> None:
    scene.project("Seen before")
    ann = person(admin)
    ann.sees("Seen before")
    ann.page.context.set_offline(True)
    expect(ann.main.get_by_text("Last updated at")).to_be_visible()
    ann.page.get_by_role("link", name="Schedules").click()
    expect(ann.page.get_by_role("alert").first).to_contain_text("could not be loaded")
    ann.page.context.set_offline(False)
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Schedules")
    expect(ann.main.get_by_text("Last updated at")).to_have_count(0)


def test_a_page_that_an_upgrade_has_removed_is_loaded_anew(
    person: Person_, admin: Client, scene: Scene
) -> None:
    scene.project("Upgraded")
    ann = person(admin)
    ann.sees("Upgraded")
    page = ann.page
    loaded: list[str] = []
    page.on("request", lambda one: loaded.append(one.url) if one.is_navigation_request() else None)
    # What the page of the build before asks for is not there any more, and the console has another entry.
    page.route(
        "**/assets/SchedulesPage-*", lambda route: route.continue_() if loaded else route.fulfill(status=404)
    )
    entry = '<script type="module" src="/console/assets/index-new.js"></script>'
    page.route("**/console/", lambda route: route.fulfill(content_type="text/html", body=entry))
    page.get_by_role("link", name="Schedules").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Schedules")
    assert [one.rsplit("/", 1)[1] for one in loaded] == ["schedules"]


def test_the_focus_and_the_title_follow_the_page_and_its_dialogs(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Focus")
    ann = person(admin)
    ann.page.get_by_role("link", name="Connections", exact=True).click()
    expect(ann.page).to_have_title("Connections · Tieline")
    expect(ann.main).to_be_focused()
    ann.button("New connection…").click()
    expect(ann.page.get_by_role("dialog")).to_be_visible()
    ann.page.keyboard.press("Escape")
    expect(ann.page.get_by_role("dialog")).to_have_count(0)
    expect(ann.button("New connection…")).to_be_focused()
    ann.open(f"/projects/{project['id']}")
    expect(ann.page).to_have_title("Focus · Tieline")


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
    connect(admin, make_template(admin)[1], "key", name=f"Key of {name}")
    admin.ok("POST", "/users", {"externalId": f"of-{name}", "displayName": f"Friend of {name}"}, status=201)
    ann = person(admin)
    ann.page.keyboard.press("Control+k")
    ann.page.keyboard.type(name)
    options = ann.page.get_by_role("dialog").get_by_role("option")
    expect(options.filter(has_text="User of-Quokka")).to_be_visible()
    expect(options.filter(has_text="Connection")).to_have_text(re.compile("Key of Quokka"))
    expect(options.filter(has_text="System")).to_be_visible()
    ann.page.get_by_role("combobox", name="Find").fill(system["id"].lower())
    options.filter(has_text="systems").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(name)


def test_the_palette_offers_nothing_that_an_earlier_text_found(person: Person_, admin: Client) -> None:
    template = make_template(admin)[1]
    for name in ("Lost numbat", "Numbat to rotate"):
        connect(admin, template, "key", name=name)
    ann = person(admin)
    unanswered: list[Route] = []

    def leave(route: Route) -> None:
        unanswered.append(route)

    ann.page.route(re.compile("/connections\\?.*search=numbat(%20|[+])"), leave)
    ann.page.keyboard.press("Control+k")
    text = ann.page.get_by_role("combobox", name="Find")
    options = ann.page.get_by_role("dialog").get_by_role("option").filter(has_text="Connection")
    text.fill("numbat")
    expect(options).to_have_count(2)
    text.fill("numbat to")
    expect(options).to_have_text([re.compile("Numbat to rotate")])
    text.fill("numbat x")
    expect(options).to_have_count(0)
    assert unanswered
    for each in unanswered:
        each.abort()


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
    encodings: set[str | None] = set()

    def note(answer: Response) -> None:
        if answer.url.endswith(".js"):
            scripts[answer.url] = answer.body()
            if len(scripts[answer.url]) > 1024:
                encodings.add(answer.headers.get("content-encoding"))

    ann.page.on("response", note)
    ann.page.reload()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Overview")
    ann.page.wait_for_load_state()
    assert scripts
    assert encodings <= {"br", "gzip"}
    assert sum(len(gzip.compress(script)) for script in scripts.values()) < 150_000
