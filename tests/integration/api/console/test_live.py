"""The console receives changes over one connection of all tabs, or polls. An ended session asks to sign in."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, Request, Route, expect

from tests.harness.cluster.kubectl import Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]


class Requests:
    """What the tabs of a browser ask of the API."""

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._paths: list[str] = []
        context.on("request", self._note)

    def _note(self, request: Request) -> None:
        self._paths.append(urlsplit(request.url).path)

    def count(self, end: str) -> int:
        self._context.cookies()  # Playwright delivers events only during calls to the browser
        return sum(path.endswith(end) for path in self._paths)


def _opens_projects(person: Person) -> Page:
    person.open("/projects")
    expect(person.page.get_by_role("heading", level=1)).to_have_text("Projects")
    return person.page


def test_a_change_is_shown_without_asking(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Heard of")
    ann = person(admin)
    requests = Requests(ann.page.context)
    page = _opens_projects(ann)
    ann.sees("Heard of")
    eventually("the stream", lambda: requests.count("/watch"))
    made = scene.project("Made meanwhile")
    ann.sees("Made meanwhile")
    admin.ok("PUT", f"/projects/{made['id']}", {"name": "Renamed meanwhile"})
    ann.sees("Renamed meanwhile")
    ann.open(f"/projects/{project['id']}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Heard of")
    scene.environment_is(project, status="running", message="")
    expect(ann.main.get_by_text("running").first).to_be_visible()
    ann.open("/runs")
    run = scene.succeeded(project, task="heard.of", ago=1)
    scene.runs(project, run)
    ann.sees("heard.of")


def test_tabs_share_one_connection_and_another_takes_over(
    person: Person_, admin: Client, scene: Scene
) -> None:
    ann = person(admin)
    requests = Requests(ann.page.context)
    first = _opens_projects(ann)
    eventually("the stream", lambda: requests.count("/watch") == 1)
    second = ann.page.context.new_page()
    second.goto(first.url)
    expect(second.get_by_role("heading", level=1)).to_have_text("Projects")
    scene.project("For both tabs")
    for tab in (first, second):
        expect(tab.get_by_text("For both tabs").first).to_be_visible()
    assert requests.count("/watch") == 1
    first.close()
    eventually("the stream of the other tab", lambda: requests.count("/watch") == 2)
    scene.project("For the tab that is left")
    expect(second.get_by_text("For the tab that is left").first).to_be_visible()


def test_without_a_stream_it_polls(person: Person_, admin: Client, scene: Scene) -> None:
    ann = person(admin)

    def refuse(route: Route) -> None:
        route.fulfill(status=503)

    ann.page.context.route("**/watch", refuse)
    requests = Requests(ann.page.context)
    _opens_projects(ann)
    asked = requests.count("/projects")
    eventually("the page asks", lambda: requests.count("/projects") > asked + 1, within=60)
    scene.project("Asked for")
    expect(ann.main.get_by_text("Asked for").first).to_be_visible()


def test_a_session_that_ends_asks_again_and_keeps_what_was_typed(
    person: Person_, admin: Client, viewer: Client
) -> None:
    ann = person(admin)
    ann.open("/notifications")
    ann.button("New channel…").click()
    ann.page.get_by_label("Name").fill("Written before")
    ann.page.context.clear_cookies()
    ann.page.get_by_label("Type").select_option("webhook")
    ann.page.get_by_label("URL").fill("https://hooks.acme.example/tieline")
    ann.page.get_by_label("Signing secret").fill("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    ann.button("Create").click()
    asked = ann.page.get_by_role("dialog", name="Your session has ended")
    expect(asked).to_be_visible()
    ann.finds_it_accessible()
    ann.page.keyboard.press("Escape")
    expect(asked).to_be_visible()
    asked.get_by_label("Token or API key").fill(str(admin.token))
    asked.get_by_role("button", name="Sign in").click()
    expect(asked).to_have_count(0)
    expect(ann.page.get_by_label("Name")).to_have_value("Written before")
    ann.button("Create").click()
    expect(ann.region("Channel Written before")).to_be_visible()
    # Another user starts on an empty page.
    ann.button("New channel…").click()
    ann.page.get_by_label("Type").select_option("webhook")
    ann.page.get_by_label("Name").fill("Not for others")
    ann.page.context.clear_cookies()
    ann.page.get_by_label("Signing secret").fill("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    ann.page.get_by_label("URL").fill("https://hooks.acme.example/tieline")
    ann.button("Create").click()
    asked.get_by_label("Token or API key").fill(str(viewer.token))
    asked.get_by_role("button", name="Sign in").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Overview")
    assert "Not for others" not in ann.page.content()


def test_signing_out_of_one_tab_signs_out_of_all(person: Person_, admin: Client, acme: Organisation) -> None:
    ann = person(admin)
    other = ann.page.context.new_page()
    other.goto(f"{ann.url}/console/{acme.namespace}/projects")
    expect(other.get_by_role("heading", level=1)).to_have_text("Projects")
    ann.button("Sign out").click()
    for tab in (ann.page, other):
        expect(tab.get_by_role("heading", level=1)).to_have_text("Sign in to Tieline")


def test_a_part_of_a_page_that_could_not_be_loaded_is_tried_again(
    person: Person_, admin: Client, scene: Scene
) -> None:
    project = scene.project("Loaded late")
    ann = person(admin)
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        refused.append(route.request.url)
        if len(refused) == 1:
            route.abort()
        else:
            route.continue_()

    ann.page.context.route("**/assets/CodeEditor-*.js", refuse_once)
    ann.open(f"/projects/{project['id']}/edit")
    expect(ann.page.get_by_role("alert").first).to_contain_text("The editor could not be loaded")
    expect(ann.page.get_by_label("The file main.py")).to_be_visible()
    assert len(refused) > 1
