"""Every page that the console has, with something on it: readable for everybody, in both schemes and at 200 % zoom."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as StillTooWide

from tests.harness.console.axe import findings, findings_in_both_schemes
from tests.harness.console.built import CONSOLE
from tests.harness.console.chromium import SIZE
from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.engine_objects import ask
from tests.integration.api.objects import activate, connect, make_system, make_template
from tests.integration.api.resources.test_connectors import import_into
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams

pytestmark = pytest.mark.cluster

WIDE = """Math.max(
  ...[document.documentElement, ...document.querySelectorAll(".table-scroll")].map(
    (each) => each.scrollWidth - each.clientWidth,
  ),
)"""
NARROW = 640
SETTLES_MS = 10_000
ELSEWHERE = {"/:o"}
"""Routes that only lead to another page."""


def routes() -> set[str]:
    """The paths of all pages, as the console declares them."""
    declared = (CONSOLE / "src" / "app" / "App.tsx").read_text()
    return set(re.findall(r'<Route path="(/:o[^"]*)"', declared)) - ELSEWHERE


def too_wide(page: Page) -> int:
    """How many pixels the page, or a list in it that would scroll sideways, is too wide, once it is drawn anew."""
    try:
        page.wait_for_function(f"() => ({WIDE}) <= 0", timeout=SETTLES_MS)
    except StillTooWide:
        return int(page.evaluate(WIDE))
    return 0


@pytest.fixture(scope="module")
def places(admin: Client, scene: Scene) -> dict[str, str]:
    """What stands for each parameter of a path: something that is there, and that has much to show."""
    project = scene.project("Order sync")
    run = scene.dead(project)
    scene.spans(project, run)
    version = admin.ok("GET", f"/projects/{project['id']}/versions")["items"][0]["id"].lower()
    release = {"number": 1, "version": version, "rollout": "complete", "healthy": True, "by": "admin"}
    times = {"deployedAt": "2026-11-21T10:00:00Z", "servedFrom": "2026-11-21T10:00:20Z"}
    scene.environment_is(project, status="running", releases=[{**release, **times}])
    scene.late(project, "nightly")
    schedule = {"name": "nightly", "cron": "0 * * * *", "timezone": "UTC", "activations": "users"}
    assert scene.registers(project, schedule) == 204
    system = make_system(admin)
    _, template = make_template(admin, project=project, dynamic=True)
    user, _ = activate(admin, project, template, "a-key")
    connection = connect(admin, make_template(admin)[1], "key", name="Shop of the north")
    connector = new_id()
    depot = {
        "openapi": "3.1.0",
        "info": {"title": "Depot", "version": "1"},
        "servers": [{"url": "https://depot.example"}],
        "paths": {"/stock": {"get": {"operationId": "stock", "responses": {"200": {"description": "All"}}}}},
    }
    assert import_into(admin, connector, json.dumps(depot).encode(), "one").status == 201
    scene.runs(project, record("", "waiting", 1))
    environment, approval = project["environments"][0]["id"], new_id()
    streams = EventStreams(admin.organisation, environment)
    scene.apart(
        partial(ask, scene.engine, streams, id=approval, title="Refund 480 EUR?", details={"order": 7})
    )
    (issue,) = admin.ok("GET", f"/projects/{project['id']}/issues")["items"]
    return {
        "project": project["id"],
        "environment": project["environments"][0]["name"],
        "environmentId": environment,
        "approval": approval,
        "release": "1",
        "run": run,
        "issue": issue["id"],
        "connection": connection["id"],
        "system": system["id"],
        "connector": connector,
        "entry": "github",
        "user": user["id"],
    }


def test_each_page_is_accessible_in_both_schemes_and_fits_at_twice_the_size(
    person: Callable[[Client], Person], admin: Client, places: dict[str, Any]
) -> None:
    ann = person(admin)
    found: dict[str, list[str]] = {}
    for route in sorted(routes()):
        path = re.sub(r":(\w+)", lambda match: str(places[match[1]]), route.removeprefix("/:o"))
        ann.open(path)
        expect(ann.page.get_by_role("heading", level=1)).not_to_be_empty()
        expect(ann.main.get_by_text(re.compile("^Loading"))).to_have_count(0)
        expect(ann.main.get_by_text("could not be loaded")).to_have_count(0)
        seen = found.setdefault(route, [])
        seen += findings_in_both_schemes(ann.page)
        # A browser at 200 % shows a page of half the size.
        ann.page.set_viewport_size({side: size // 2 for side, size in SIZE.items()})  # type: ignore[arg-type, misc]
        if wide := too_wide(ann.page):
            seen.append(f"at 200 % it is {wide} pixels too wide")
        seen += [f"at 200 %: {one}" for one in findings(ann.page)]
        ann.page.emulate_media(color_scheme="dark")
        seen += [f"at 200 %, dark: {one}" for one in findings(ann.page)]
        ann.page.emulate_media(color_scheme="light")
        ann.page.set_viewport_size({"width": NARROW, "height": SIZE["height"]})
        if wide := too_wide(ann.page):
            seen.append(f"in a window of {NARROW} pixels it is {wide} too wide")
        ann.page.set_viewport_size(SIZE)
    wrong = "\n".join(f"{route} {one}" for route, seen in found.items() for one in seen)
    assert not wrong, wrong
