"""What others wrote, with all of its tricks, on every page: it is text, nothing of it runs, and no page breaks.

That nothing runs, that nothing outside is loaded and that the policy is not breached is asserted at the end of each
test (``tests/harness/console/watching.py``).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.hostile import (
    ANSI,
    BIDI,
    EVERYTHING,
    LINK,
    LONG,
    MARKUP,
    PATH,
    PROTOTYPE,
    TEMPLATE,
    printable,
    short,
)
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene, run_trace, span
from tests.integration.api.objects import make_channel, make_template
from tests.integration.api.resources.test_connectors import import_into
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunError, StepRecord, UpstreamAnswer

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
# Bidirectional controls of Unicode: what follows them reads otherwise than it is.
TURNS = re.compile("[^\n]{0,20}[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069][^\n]{0,20}")
FILES = [
    {"filename": "main.py", "content": f"# {EVERYTHING}\n'''{MARKUP}'''\nprint('{LONG}')\n"},
    {"filename": "a<img src=x onerror=__pwned('file')>.py", "content": MARKUP},
]


@dataclass
class Hostile:
    """Objects of each kind whose every text is hostile."""

    project: dict[str, Any]
    run: str
    connection: str
    user: str


@pytest.fixture(scope="module")
def hostile(scene: Scene, admin: Client) -> Hostile:
    project = scene.project(printable(short(60, TEMPLATE + MARKUP)))
    admin.ok(
        "PUT",
        f"/projects/{project['id']}/deploy",
        {"files": FILES[:1], "versionName": printable(short(60)), "versionDescription": EVERYTHING[:200]},
    )
    admin.ok("PUT", f"/projects/{project['id']}/files", {"files": FILES, "labels": {}})
    system = _system(admin)
    _, template = make_template(admin, project=project, name="shop", system=system)
    user = _user(admin, project)
    given = {
        "name": printable(short(60)),
        "credentials": [],
        "baseUrl": "https://evil.example/'><svg/onload=x>",
    }
    body = {"connectionTemplateId": template["connectionTemplateId"], "connection": given}
    connection = admin.ok("POST", "/connections", body, status=201)["id"]
    make_channel(admin, name=printable(short(60)))
    run = _run(scene, project)
    scene.environment_is(
        project,
        status="error",
        message=EVERYTHING + LONG[:5000],
        publicUrl=LINK,
        rollout="failed",
        deployFailure=EVERYTHING[:256],
        releases=[
            {
                "number": 1,
                "version": "nowhere",
                "deployedAt": "2026-11-21T10:00:00Z",
                "rollout": "failed",
                **dict.fromkeys(("by", "via", "message", "revision", "reason", "failure"), EVERYTHING[:256]),
            }
        ],
    )
    return Hostile(project, run, connection, user)


def _system(admin: Client) -> str:
    description = {
        "openapi": "3.1.0",
        "info": {"title": MARKUP, "version": "1", "description": EVERYTHING},
        "servers": [{"url": "https://shop.example", "description": MARKUP}],
        "paths": {
            "/<img src=x onerror=__pwned('path')>": {
                "get": {
                    "operationId": "<script>__pwned('operation')</script>",
                    "summary": EVERYTHING,
                    "responses": {"200": {"description": MARKUP}},
                }
            }
        },
    }
    imported = import_into(admin, new_id(), json.dumps(description).encode())
    assert imported.status == 201, imported.raw
    body = {
        "name": printable(short(60)),
        "domain": "<b>evil.example</b>",
        "templateBaseUrl": "https://evil.example/'><img/src=x/onerror=__pwned('base')>",
        "authSchemeConfigs": [],
    }
    made: dict[str, Any] = admin.ok("POST", "/systems", body, status=201)
    return str(made["id"])


def _user(admin: Client, project: dict[str, Any]) -> str:
    """A user who is activated with hostile variables; the id in the application is a path with percent signs."""
    external = printable(PATH) + "%E0%A4%A<b>"
    user = {"externalId": external, "displayName": printable(MARKUP)[:200]}
    made: dict[str, Any] = admin.ok("POST", "/users", user, status=201)
    variables = {"text": EVERYTHING, PROTOTYPE: {"polluted": MARKUP}, "constructor": LINK, MARKUP: [LONG]}
    activation = {
        "environmentId": project["environments"][0]["id"],
        "userId": external,
        "dynamicVariables": variables,
        "connections": [],
    }
    admin.ok("POST", "/activations", activation)
    return str(made["id"])


def _run(scene: Scene, project: dict[str, Any], *, task: str = printable(short(90))) -> str:
    upstream = UpstreamAnswer(status=503, body=f"<html><body>{EVERYTHING}</body></html>{LONG}")
    steps = [
        StepRecord(name=each, occurrence=1, started_at=1, ended_at=2, error=EVERYTHING)
        for each in (MARKUP, PROTOTYPE, BIDI, ANSI)
    ]
    run, now = new_id(), time.time()
    dead = record(
        run,
        "dead",
        1,
        queued_at=now - 30,
        at=now,
        started_at=now - 20,
        ended_at=now,
        attempts=1,
        trace_id=run_trace(run),
        error=RunError(type=MARKUP, message=EVERYTHING + LONG, upstream=upstream),
        steps=tuple(steps),
        task=task,
        user=printable(short(90)),
        key=printable(short(90)),
        version=printable(short(60)),
        input=json.dumps({"text": EVERYTHING, PROTOTYPE: {"x": MARKUP}, MARKUP: LONG, "nul": "\0"}).encode(),
    )
    scene.runs(project, dead)
    trace, failed = run_trace(run), {"code": 2, "message": EVERYTHING}
    attributes = [
        {"key": key, "value": {"stringValue": value}}
        for key, value in ((MARKUP, EVERYTHING), ("url.full", LINK), (PROTOTYPE, LONG), ("db", ANSI))
    ]
    scene.spans(
        project,
        run,
        span(20, trace, 21, MARKUP, 1, 1, attributes=attributes, status=failed),
        span(21, trace, 20, BIDI, 2**62, 10**9, attributes=attributes),
        span(22, trace, 22, LONG, 0, 0),
    )
    return run


def _stays_whole(person: Person) -> None:
    """The page is there, within its width, and has made no element of what it shows."""
    expect(person.page.get_by_role("heading", level=1)).to_be_visible()
    expect(person.page.get_by_role("navigation", name="Pages")).to_be_visible()
    expect(person.page.get_by_role("status", name=re.compile("^Loading"))).to_have_count(0)
    expect(person.page.get_by_text("This page could not be shown")).to_have_count(0)
    made = "img[onerror], svg[onload], b[onclick], main script, main style, main link, main iframe"
    expect(person.page.locator(made)).to_have_count(0)
    protocol = "new URL(each.getAttribute('href'), location.href).protocol"
    links = person.page.locator("a[href]").evaluate_all(f"all => all.map((each) => {protocol})")
    assert set(links) <= {"http:", "https:"}
    assert person.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), person.page.url
    assert person.page.evaluate("({}).polluted === undefined")
    turned = TURNS.findall(person.main.inner_text())
    assert not turned, f"{person.page.url}: letters that turn the text around are shown as such: {turned}"


def test_every_page_of_the_navigation_shows_it_as_text(
    person: Person_, admin: Client, hostile: Hostile
) -> None:
    ann = person(admin)
    pages = ann.page.get_by_role("navigation", name="Pages").get_by_role("link")
    addresses = pages.evaluate_all("all => all.map((each) => each.getAttribute('href'))")
    assert len(addresses) >= 10
    for address in addresses:
        ann.page.goto(ann.url + address)
        _stays_whole(ann)


def test_a_project_and_its_files_are_shown_as_text(person: Person_, admin: Client, hostile: Hostile) -> None:
    ann = person(admin)
    ann.open(f"/projects/{hostile.project['id']}")
    _stays_whole(ann)
    card = ann.region("Environment production")
    expect(card).to_contain_text("<script>__pwned('script')</script>")
    expect(card.get_by_role("link")).to_have_count(0)
    ann.button("a<img").last.click()
    expect(ann.page.get_by_label("The file a<img")).to_contain_text("onerror")
    _stays_whole(ann)
    card.get_by_role("button", name="Deploy").first.click()
    expect(ann.page.get_by_role("dialog")).to_contain_text("onerror")
    _stays_whole(ann)


def test_a_release_is_shown_as_text(person: Person_, admin: Client, hostile: Hostile) -> None:
    ann = person(admin)
    ann.open(f"/projects/{hostile.project['id']}/environments/production/releases/1")
    expect(ann.region("About")).to_contain_text("onerror")
    _stays_whole(ann)
    ann.open(f"/projects/{hostile.project['id']}/environments/%3Cimg%20src=x%3E/releases/latest")
    expect(ann.page.get_by_role("alert")).to_be_visible()
    _stays_whole(ann)


def test_a_run_with_its_trace_is_shown_as_text(person: Person_, admin: Client, hostile: Hostile) -> None:
    ann = person(admin)
    ann.open(f"/projects/{hostile.project['id']}/runs/{hostile.run}")
    why = ann.region("Why it failed")
    expect(why).to_contain_text("<script>__pwned('script')</script>")
    expect(why).to_contain_text("<html><body>")
    trace = ann.region("Trace").get_by_role("button")
    expect(trace).to_have_count(6)  # the store takes no span that began at 0
    for row in trace.all():
        row.click()
        _stays_whole(ann)
    expect(ann.button("Replay…")).to_have_count(0)  # no task can have that name


def test_the_payload_of_a_replay_is_shown_as_text(
    person: Person_, admin: Client, hostile: Hostile, scene: Scene
) -> None:
    run = _run(scene, hostile.project, task="orders")
    ann = person(admin)
    ann.open(f"/projects/{hostile.project['id']}/runs/{run}")
    ann.button("Replay…").click()
    expect(ann.page.get_by_label("Payload")).to_have_value(re.compile("__proto__"))
    _stays_whole(ann)


def test_a_user_and_a_connection_are_shown_as_text(person: Person_, admin: Client, hostile: Hostile) -> None:
    ann = person(admin)
    ann.open(f"/connections/{hostile.connection}")
    _stays_whole(ann)
    ann.open("/users")
    ann.main.get_by_role("link", name="onerror").first.click()
    ann.sees("polluted")
    _stays_whole(ann)


def test_the_palette_and_the_choices_show_it_as_text(
    person: Person_, admin: Client, hostile: Hostile
) -> None:
    ann = person(admin)
    ann.open("/runs")
    ann.page.get_by_label("Project").select_option(hostile.project["id"])
    _stays_whole(ann)
    ann.page.keyboard.press("Control+k")
    ann.page.keyboard.type("constructor")
    expect(ann.page.get_by_role("option", name="constructor.constructor").last).to_be_visible()
    ann.page.keyboard.press("Enter")
    expect(ann.page).to_have_url(re.compile(f"/projects/{hostile.project['id']}$"))
    _stays_whole(ann)


def test_what_a_pod_says_of_its_schedules_is_shown_as_text(
    person: Person_, admin: Client, hostile: Hostile, scene: Scene
) -> None:
    """What the platform does not allow is refused; hostile records of schedules change nothing."""
    project = scene.project("Odd hours")
    scene.environment_is(project, status="running")

    def registered(**schedule: str) -> int:
        one = {
            "name": "odd",
            "cron": "0 5 * * *",
            "timezone": "UTC",
            "activations": "static",
            **schedule,
        }
        return scene.registers(project, one)

    assert [registered(name=name) for name in (MARKUP, BIDI, PATH, "", PROTOTYPE, LONG, "a\nb")] == [422] * 7
    assert registered(cron=short(250)) == registered(timezone=short(250, BIDI + MARKUP)) == 422
    assert registered() == 204
    for name in ("odd", MARKUP, BIDI, PATH, PROTOTYPE):
        scene.schedule_record(project, name, {"settled": "2026-01-01T00:00:00Z", "times": f"{MARKUP} UTC"})
    ann = person(admin)
    ann.open(f"/schedules?project={project['id']}")
    odd = ann.region("Schedule odd in production")
    expect(odd).to_contain_text("last never")
    expect(odd).not_to_contain_text("script")
    expect(ann.main.get_by_role("region", name=re.compile("^Schedule "))).to_have_count(1)
    _stays_whole(ann)
    ann.open("/overview")
    expect(ann.region("Needs attention")).not_to_contain_text("did not run")
    _stays_whole(ann)


ADDRESSES = [
    f"/runs?search={quote(MARKUP)}&task={quote(EVERYTHING[:200])}&status={quote(MARKUP)}",
    f"/runs?project={quote(MARKUP)}&start=never&end={quote(LINK)}",
    f"/logs?project={quote(MARKUP)}&severity={quote(MARKUP)}&search={quote(EVERYTHING[:200])}",
    f"/schedules?project={quote(PATH)}&environment={quote(MARKUP)}",
    f"/systems?search={quote(MARKUP)}",
    f"/users?search={quote(EVERYTHING[:200])}",
    "/projects/%3Cimg%20src=x%20onerror=__pwned('url')%3E",
    "/projects/..%2f..%2fme",
    "/projects/%00/runs/%00",
    "/users/%E0%A4%A",
    "/users/%25E0%25A4%25A",
    "/connections/javascript:__pwned('url')",
    "/no-such-page/%3Cscript%3E",
    "/__proto__",
    "/#javascript:__pwned('hash')",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_link_that_somebody_was_sent_runs_nothing(person: Person_, admin: Client, address: str) -> None:
    ann = person(admin)
    ann.open(address)
    expect(ann.page.get_by_role("navigation", name="Pages")).to_be_visible()
    expect(ann.main).not_to_be_empty()
    expect(ann.page.get_by_text("This page could not be shown")).to_have_count(0)
    expect(ann.page.locator("img[onerror], main script")).to_have_count(0)


@pytest.mark.parametrize(
    "address",
    [
        "/console/%E0%A4%A/overview",
        "/console/<script>/overview",
        "/console//evil.example/",
        "/console/%2e%2e/docs",
    ],
)
def test_an_organisation_that_is_none_is_said_to_be_none(
    person: Person_, admin: Client, address: str
) -> None:
    ann = person(admin)
    ann.page.goto(ann.url + address)
    expect(ann.page.locator("body")).to_contain_text(
        re.compile("You have no access|API|Overview|Not Found|not found")
    )
    assert ann.page.url.startswith(ann.url)
