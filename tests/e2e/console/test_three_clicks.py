"""The ten questions of three in the morning, each in at most three clicks from the overview, and the first run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.e2e.console.conftest import People
from tests.e2e.console.stage import CODE, Stage
from tests.e2e.console.test_roles_at_keycloak import new_connection
from tests.harness.cluster.deployed_platform import Platform
from tests.harness.cluster.kubectl import an_organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.console.person import Person
from tests.integration.api.console.test_connections import until

pytestmark = pytest.mark.e2e

BUDGET = 3
FIRST_RUN = 5
WHO = re.compile("person-|admin")
"""Somebody at Keycloak, or who made the stage."""
COUNTER = """
if (!window.countsClicks) {
  window.countsClicks = true;
  const count = () => {
    sessionStorage.clicks = Number(sessionStorage.clicks ?? 0) + 1;
  };
  addEventListener("click", (event) => event.isTrusted && count(), true);
  // Playwright chooses an option by an event of its own, which is not trusted.
  addEventListener("change", (event) => event.target.tagName === "SELECT" && count(), true);
}
"""


@contextmanager
def counted(someone: Person, most: int = BUDGET) -> Iterator[Person]:
    """Somebody at the overview, whose clicks and choices the browser counts until the block ends."""
    someone.open("/overview")
    expect(someone.page.get_by_role("heading", level=1)).to_have_text("Overview")
    someone.page.evaluate("sessionStorage.clicks = 0")
    someone.page.evaluate(COUNTER)
    yield someone
    clicks = int(someone.page.evaluate("sessionStorage.clicks"))
    assert 0 <= clicks <= most, f"{clicks} clicks"


@pytest.fixture(scope="module")
def failed(stage: Stage) -> str:
    """A run of an order that the shop refused."""
    stage.shop_is(closed=True)
    return stage.dead("order-11")


def test_what_is_broken_takes_no_click(people: People, failed: str) -> None:
    with counted(people.viewer, most=0) as ann:
        attention = ann.region("Needs attention")
        expect(attention).to_contain_text("Connection Lost key cannot be used")
        expect(attention).to_contain_text("order.created: Shop answered 503")


def test_why_an_order_failed_and_what_the_other_system_answered(people: People, failed: str) -> None:
    with counted(people.viewer) as ann:
        ann.page.keyboard.press("Control+k")
        ann.page.keyboard.type("order-11")
        ann.page.get_by_role("dialog").get_by_role("option").filter(has_text="order.created").first.click()
        expect(ann.page).to_have_url(re.compile(f"/runs/{failed}$"))
        why = ann.region("Why it failed")
        expect(why).to_contain_text("Shop answered 503")
        expect(why).to_contain_text("Stocktaking until noon")


def test_which_version_runs_who_released_it_and_what_changed(people: People, stage: Stage) -> None:
    files = [{"filename": "main.py", "content": f"{CODE}\n# Of the ten questions\n"}]
    body = {"files": files, "versionName": "of the questions"}
    assert stage.rest("PUT", f"/projects/{stage.project}/deploy?project_env=staging", body).status == 200
    stage.runs("staging", "of the questions")
    with counted(people.viewer) as ann:
        ann.region("Projects").get_by_role("link", name="Order sync").click()
        expect(ann.region("Environment staging").locator(".version")).to_contain_text("of the questions")
        releases = ann.region("Releases")
        ann.page.get_by_label("Environment of the releases").select_option("staging")
        expect(releases.get_by_role("link").first).to_contain_text(WHO)
        releases.get_by_role("link").first.click()
        expect(ann.region("About")).to_contain_text(WHO)
        expect(ann.region("What changed")).to_contain_text("# Of the ten questions")
        expect(ann.region("What changed").get_by_role("link", name="since release")).to_be_visible()


def test_since_which_release_it_fails(people: People, failed: str) -> None:
    with counted(people.viewer) as ann:
        ann.region("Needs attention").get_by_role("link", name="order.created: Shop answered 503").click()
        since = ann.region("About").get_by_role("link", name=re.compile(r"\(release \d+\)$")).first
        number = (since.inner_text().rpartition(" ")[2]).removesuffix(")")
        since.click()
        expect(ann.page.get_by_role("heading", level=1)).to_have_text(f"Release {number} of staging")
        expect(ann.region("About")).to_contain_text(WHO)


def test_the_failed_runs_of_the_last_hour_are_replayed(people: People, stage: Stage, failed: str) -> None:
    stage.shop_is(closed=False)
    with counted(people.editor) as ann:
        ann.region("Needs attention").get_by_role("link", name="order.created: Shop answered 503").click()
        ann.button("Replay…").click()
        ann.page.get_by_role("dialog").get_by_role(
            "button", name=re.compile(r"^Replay \d+ of the last hour$")
        ).click()
        expect(ann.page.get_by_role("dialog")).to_have_count(0)
    eventually("the order in the shop", lambda: stage.booked("order-11"))


def test_which_customers_are_hit(people: People, stage: Stage) -> None:
    stage.shop_is(closed=True)
    bob = people.editor
    bob.open(f"/schedules?project={stage.project}&environment=staging")
    bob.region("Schedule nightly in staging").get_by_role("button", name="Run now…").click()
    bob.page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(bob.page.get_by_role("dialog")).to_have_count(0)
    path = f"/projects/{stage.project}/issues?task=nightly&state=open&state=regressed"
    eventually("the issue", lambda: stage.rest("GET", path).json["items"])
    with counted(people.viewer) as ann:
        ann.region("Needs attention").get_by_role("link", name="nightly").first.click()
        expect(ann.region("Affected users")).to_contain_text("ann")
        ann.region("Affected users").get_by_role("link", name="ann").click()
        expect(ann.page).to_have_url(re.compile("[?&]user=ann"))


def test_when_the_next_schedule_runs(people: People) -> None:
    with counted(people.viewer) as ann:
        ann.page.get_by_role("link", name="Schedules", exact=True).click()
        expect(ann.region("Schedule nightly in staging")).to_contain_text(re.compile("next in"))


def test_a_key_is_rotated(people: People) -> None:
    new_connection(people.editor, "Key to rotate", "spare · shop.example", **{"Key (sent as X-Key)": "old"})
    with counted(people.editor) as ann:
        ann.page.keyboard.press("Control+k")
        ann.page.keyboard.type("Key to rotate")
        ann.page.get_by_role("dialog").get_by_role("option").filter(has_text="Connection").first.click()
        expect(ann.page.get_by_role("heading", level=1)).to_have_text("Key to rotate")
        ann.button("Rotate…").click()
        dialog = ann.page.get_by_role("dialog")
        dialog.get_by_label("Key (sent as X-Key)").fill("shop-key-of-a-test")
        dialog.get_by_role("button", name="Rotate").click()
        expect(dialog).to_have_count(0)


def test_an_account_is_connected_by_oauth(people: People, stage: Stage) -> None:
    new_connection(people.editor, "Bob's account", "club · club.example")
    with counted(people.editor) as ann:
        ann.page.keyboard.press("Control+k")
        ann.page.keyboard.type("Bob's account")
        ann.page.get_by_role("dialog").get_by_role("option").filter(has_text="Connection").first.click()
        ann.main.get_by_role("button", name="Connect").click()
        login = until(
            ann.page,
            "a window shows the club's page",
            lambda: next((one for one in ann.page.context.pages if one.url.startswith(stage.club)), None),
        )
        login.get_by_label("Member").fill("ann")
        login.get_by_label("Password").fill("anns-password")
        allow = login.get_by_role("button", name="Sign in and allow")
        allow.evaluate("button => setTimeout(() => button.click())")
        expect(ann.region("Credentials")).to_contain_text("Connected.")


def test_what_expires_soon(people: People, stage: Stage) -> None:
    until_ = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    patch = [{"op": "add", "path": "/spec/credentials/0/expiresAt", "value": until_}]
    stage.tenant.kubectl(
        *("patch", "connection", "shop", "--type=json", "-p", json.dumps(patch)),
        namespace=stage.tenant.namespace,
    )
    with counted(people.viewer) as ann:
        tile = ann.main.get_by_role("link", name=re.compile("^Expires soon"))
        expect(tile.locator(".big")).to_have_text(re.compile("[1-9]"))
        tile.click()
        ending = ann.region("Connections").get_by_role("link").filter(has_text="Shop")
        expect(ending.first).to_contain_text("expires soon")


def test_from_an_empty_organisation_to_a_run_on_a_real_pod(
    platform: Platform, people: People, signed_in: Callable[[str, str], Person]
) -> None:
    with an_organisation(platform.kubectl) as organisation:
        someone = signed_in(organisation.namespace, "editor")
        with counted(someone, most=FIRST_RUN) as ann:
            ann.main.get_by_role("link", name="New project").click()
            ann.button("Create project").click()
            expect(ann.page.get_by_role("status", name="Check")).to_have_text("Checked: nothing was found.")
            ann.button("Save and deploy").click()
            expect(ann.page.get_by_text("Deployed to production: accepted")).to_be_visible()
            webhooks = ann.region("Webhooks")
            webhooks.get_by_role("button", name="Call").click()
            expect(webhooks).to_contain_text("The webhook answered 200")
            expect(ann.region("The run")).to_contain_text("succeeded")
