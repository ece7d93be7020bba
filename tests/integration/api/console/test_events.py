"""Events and dead letters: how much waits, since when, by task and key; and replaying."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.unit.api.runs.run_records import record

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]


def test_dead_letters_are_counted_by_task_and_replayed(person: Person_, admin: Client, scene: Scene) -> None:
    project = scene.project("Letters")
    for _ in range(2):
        scene.dead(project, message="the shop is closed")
    ann = person(admin)
    ann.open("/dead-letters")
    letters = ann.region("Dead letters of order.created in Letters · production")
    expect(letters).to_contain_text("production · 2")
    expect(letters).to_contain_text("the shop is closed")
    ann.finds_it_accessible()
    letters.get_by_role("button", name="Replay").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Replay 2").click()
    expect(ann.page.get_by_role("status").filter(has_text="2 runs")).to_be_visible()
    assert len(admin.ok("GET", f"/projects/{project['id']}/runs")["items"]) == 4


def test_what_waits_is_told_by_task_and_key(person: Person_, viewer: Client, scene: Scene) -> None:
    project = scene.project("Waiting room")
    now = time.time()
    scene.runs(
        project,
        *(
            record("", "queued", 0, kind="event", task="order.created", key=key, queued_at=now - ago, at=now)
            for key, ago in (("ann", 7200), ("ann", 60), ("bob", 30))
        ),
    )
    ann = person(viewer)
    ann.open("/dead-letters")
    waiting = ann.region("Waiting of order.created in Waiting room · production")
    expect(waiting).to_contain_text("3 queued · the oldest 2 h ago")
    expect(waiting.get_by_role("link", name="ann · 2")).to_be_visible()
    ann.finds_it_accessible()
    waiting.get_by_role("link", name="bob · 1").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Runs")
    assert "key=bob" in ann.page.url
