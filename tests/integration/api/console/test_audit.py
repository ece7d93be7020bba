"""Audit: who changed what, who was refused, and that only administrators see it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tests.integration.api.objects import make_system

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]


@pytest.fixture
def system(admin: Client, scene: Scene) -> str:
    """The id of a system that was made, renamed, and that an anonymous caller could not change."""
    scene.project("Audited")
    made = str(make_system(admin)["id"])
    admin.ok("PUT", f"/systems/{made}", {"name": "Renamed shop"}, status=201)
    assert replace(admin, token=None)("PUT", f"/systems/{made}", {"name": "x"}).status == 401
    for log, number in (("changes", 2), ("access", 1)):
        listed = f"/audit?log={log}&id={made}"
        eventually(log, lambda listed=listed, number=number: len(admin.ok("GET", listed)["items"]) == number)
    return made


def test_records_say_who_changed_what_and_who_was_refused(
    person: Person_, admin: Client, system: str
) -> None:
    ann = person(admin)
    ann.open(f"/audit?id={system}")
    records = ann.page.get_by_role("list", name="Audit records").get_by_role("listitem")
    expect(records).to_have_count(2)
    expect(records.first).to_contain_text("updateSystem")
    expect(records.first).to_contain_text("name = Renamed shop")
    expect(records.first.get_by_role("link", name=system)).to_be_visible()
    expect(records.last).to_contain_text("createSystem")
    ann.finds_it_accessible()
    ann.page.get_by_label("Log").select_option("access")
    expect(records).to_have_count(1)
    expect(records).to_contain_text("anonymous, from 127.0.0.1")
    expect(records).to_contain_text("refused: unauthenticated")
    ann.page.get_by_label("Outcome").select_option("failed")
    ann.button("Clear the filters").click()
    expect(ann.page).to_have_url(re.compile("/audit$"))


def test_a_record_leads_to_what_it_is_about(person: Person_, admin: Client, system: str) -> None:
    ann = person(admin)
    ann.open("/audit")
    records = ann.page.get_by_role("list", name="Audit records").get_by_role("listitem")
    expect(records.filter(has_text=system).first).to_be_visible()
    records.filter(has_text=system).first.get_by_role("link", name=system).click()
    expect(ann.page).to_have_url(re.compile(f"/systems/{system}"))


def test_who_is_no_administrator_is_told_so(person: Person_, viewer: Client) -> None:
    ann = person(viewer)
    ann.open("/audit")
    expect(ann.main).to_contain_text("Only administrators read audit records")
