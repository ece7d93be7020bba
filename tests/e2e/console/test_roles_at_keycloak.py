"""The console on the deployed platform: the questions that people open it with, in their roles, at Keycloak."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.console.conftest import People
from tests.e2e.console.stage import CODE, Stage, as_json
from tests.harness.cluster.deployed_platform import http
from tests.harness.session.waiting import eventually
from tests.integration.api.console.person import Person
from tests.integration.api.console.test_connections import until

pytestmark = pytest.mark.e2e

CHANGED = CODE.replace('VERSION = "one"', 'VERSION = "two"')
WAREHOUSE = {
    "openapi": "3.1.0",
    "info": {"title": "Warehouse", "version": "1"},
    "servers": [{"url": "https://api.warehouse.example"}],
    "security": [{"key": []}],
    "components": {"securitySchemes": {"key": {"type": "apiKey", "name": "X-Key", "in": "header"}}},
    "paths": {
        "/stock": {"get": {"operationId": "listStock", "responses": {"200": {"description": "The stock"}}}},
        "/orders": {"get": {"operationId": "listStock", "responses": {"200": {"description": "Orders"}}}},
    },
}


def test_a_viewer_finds_what_is_broken_and_why_the_run_failed(people: People, stage: Stage) -> None:
    stage.shop_is(closed=True)
    run = stage.dead("order-7")
    ann = people.viewer
    ann.open("/overview")
    attention = ann.region("Needs attention")
    expect(attention).to_contain_text("Connection Lost key cannot be used")
    attention.get_by_role("link", name="order.created: Shop answered 503").click()
    ann.region("Latest runs").locator("a.problem").first.click()
    expect(ann.page).to_have_url(re.compile(f"/runs/{run}$"))
    why = ann.region("Why it failed")
    expect(why).to_contain_text("Shop answered 503")
    expect(why).to_contain_text("Stocktaking until noon")
    expect(ann.region("Attempts").locator(".problem")).to_have_count(2)
    expect(ann.region("Steps")).to_contain_text("book the order")
    expect(ann.region("Input")).to_contain_text("order-7")
    trace = ann.region("Trace")
    expect(trace.get_by_role("button", name="failed: POST")).to_have_count(1)
    newest = trace.locator("code").first.inner_text()
    trace.get_by_label("Attempt").select_option("1")
    expect(trace.locator("code").first).not_to_have_text(newest)
    expect(trace.get_by_role("button", name="failed: POST")).to_have_count(1)
    expect(ann.region("Logs")).to_contain_text("Booking an order")
    ann.finds_it_accessible()


def test_an_editor_replays_dead_letters_when_the_shop_is_open_again(people: People, stage: Stage) -> None:
    stage.shop_is(closed=True)
    stage.dead("order-8")
    ann = people.editor
    ann.open("/dead-letters")
    letters = ann.region("Dead letters of order.created in Order sync · staging")
    expect(letters).to_contain_text("Stocktaking until noon")
    stage.shop_is(closed=False)
    letters.get_by_role("button", name="Replay…").click()
    ann.page.get_by_role("dialog").get_by_role("button", name=re.compile(r"^Replay \d+$")).click()
    eventually("the order in the shop", lambda: stage.booked("order-8"))
    ann.sees("No dead letter")


def test_an_editor_deploys_a_change_and_calls_its_webhook(people: People, stage: Stage) -> None:
    stage.change(CHANGED)
    ann = people.editor
    ann.open(f"/projects/{stage.project}")
    card = ann.region("Environment staging")
    card.get_by_role("button", name="Deploy").click()
    dialog = ann.page.get_by_role("dialog")
    expect(dialog.get_by_label("Changes of main.py")).to_contain_text('VERSION = "two"')
    dialog.get_by_role("button", name="Deploy").click()
    expect(dialog).to_have_count(0)
    eventually("the new version", lambda: stage.calls("staging")["version"] == "two")
    expect(card).to_contain_text("running")
    webhooks = ann.region("Webhooks")
    webhooks.get_by_label("Path").fill("/quote")
    webhooks.get_by_label("Body").fill(as_json({"pieces": 4}))
    webhooks.get_by_role("button", name="Call").click()
    expect(webhooks).to_contain_text("The webhook answered 200")
    expect(webhooks).to_contain_text('"price"')


def test_an_editor_promotes_with_a_diff_rolls_back_suspends_and_resumes(people: People, stage: Stage) -> None:
    ann = people.editor
    ann.open(f"/projects/{stage.project}")
    card = ann.region("Environment production")
    dialog = ann.page.get_by_role("dialog")
    card.get_by_role("button", name="Promote from staging…").click()
    expect(dialog.get_by_label("Changes of main.py")).to_contain_text("def order_created")
    dialog.get_by_role("button", name="Promote").click()
    expect(card).to_contain_text("running")
    serving = eventually("a node forwards to the new pod", lambda: stage.calls("production")["version"])

    staging = ann.region("Environment staging")
    staging.get_by_role("button", name="Deploy or roll back…").click()
    first = dialog.get_by_label("What").locator("option", has_text="one").get_attribute("value")
    dialog.get_by_label("What").select_option(first)
    dialog.get_by_role("button", name="Deploy").click()
    eventually("the version before", lambda: stage.calls("staging")["version"] == "one")
    expect(staging.locator(".version")).to_have_text("one")

    card.get_by_role("button", name="Suspend…").click()
    dialog.get_by_role("button", name="Suspend").click()
    expect(card).to_contain_text("suspended")
    card.get_by_role("button", name="Resume…").click()
    dialog.get_by_role("button", name="Resume").click()
    expect(card).to_contain_text("running")
    eventually("it serves again", lambda: stage.calls("production")["version"] == serving)


def test_a_viewer_follows_the_log_of_the_pods(people: People, stage: Stage) -> None:
    stage.shop_is(closed=True)
    stage.dead("order-10")
    ann = people.viewer
    ann.open(f"/logs?project={stage.project}&environment=staging")
    lines = ann.region("Log lines")
    expect(lines).to_contain_text("order=order-10")
    assert stage.calls("staging")["price"] == 30
    expect(lines).to_contain_text("pieces=3")
    ann.page.get_by_label("Severity").select_option("WARNING")
    expect(lines).not_to_contain_text("Quoting")
    expect(lines).to_contain_text("Booking an order")
    ann.button("Pause").click()
    expect(ann.button("Go on")).to_be_visible()


def test_connections_say_which_are_refused_and_who_is_connected(people: People) -> None:
    ann = people.viewer
    ann.open("/connections")
    first = ann.region("Connections").get_by_role("link").first
    expect(first).to_contain_text("Lost key")
    expect(first).to_contain_text("invalid")
    first.click()
    expect(ann.region("Credentials")).to_contain_text("nowhere")


def new_connection(ann: Person, name: str, system: str, **typed: str) -> None:
    """Makes one for the environment production by the form, and ends at its page."""
    ann.open("/connections")
    ann.button("New connection…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("Environment").select_option(label="Order sync · production")
    dialog.get_by_label("System (the name that code uses)").select_option(label=system)
    dialog.get_by_label("Name", exact=True).fill(name)
    for label, value in typed.items():
        dialog.get_by_label(label).fill(value)
    dialog.get_by_role("button", name="Create").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(name)


def try_out(ann: Person, path: str) -> None:
    """Sends a request through the connection whose page is open."""
    ann.page.get_by_label("Path to request").fill(path)
    ann.region("Test").get_by_role("button", name="Test").click()


def test_an_editor_makes_a_connection_sees_that_its_key_is_refused_and_rotates_it(people: People) -> None:
    ann = people.editor
    new_connection(ann, "Second key", "spare · shop.example", **{"Key (sent as X-Key)": "a-wrong-key"})
    try_out(ann, "/me")
    expect(ann.region("Test")).to_contain_text("401")
    ann.button("Rotate…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("Key (sent as X-Key)").fill("shop-key-of-a-test")
    dialog.get_by_role("button", name="Rotate").click()
    expect(dialog).to_have_count(0)
    try_out(ann, "/me")
    expect(ann.region("Test")).to_contain_text("200")
    ann.finds_it_accessible()


def test_an_editor_connects_an_account_by_oauth_and_tests_it(people: People, stage: Stage) -> None:
    ann = people.editor
    new_connection(ann, "Ann's account", "club · club.example")
    try_out(ann, "/me")
    expect(
        ann.region("Test").get_by_role("alert").or_(ann.region("Test").locator(".note.bad"))
    ).to_be_visible()
    ann.main.get_by_role("button", name="Connect").click()
    login = until(
        ann.page,
        "a window shows the club's page",
        lambda: next((one for one in ann.page.context.pages if one.url.startswith(stage.club)), None),
    )
    login.get_by_label("Member").fill("ann")
    login.get_by_label("Password").fill("anns-password")
    # The answer leads away from the page that Playwright's click would wait for.
    allow = login.get_by_role("button", name="Sign in and allow")
    allow.evaluate("button => setTimeout(() => button.click())")
    expect(ann.region("Credentials")).to_contain_text("Connected.")
    until(ann.page, "the window closes", lambda: ann.page if ann.page.context.pages == [ann.page] else None)
    try_out(ann, "/me")
    expect(ann.region("Test")).to_contain_text("200")
    assert "club-secret-of-a-test" not in ann.page.content()


def test_a_user_s_page_has_their_variables_and_their_runs(people: People, stage: Stage) -> None:
    stage.shop_is(closed=False)
    bob = people.editor
    bob.open(f"/schedules?project={stage.project}&environment=staging")
    nightly = bob.region("Schedule nightly in staging")
    nightly.get_by_role("button", name="Run now…").click()
    dialog = bob.page.get_by_role("dialog")
    dialog.get_by_label("Only for this user").fill("ann")
    dialog.get_by_role("button", name="Run").click()
    eventually("the run for ann", lambda: stage.booked("nightly of ann"))
    expect(nightly).to_contain_text("succeeded")

    ann = people.viewer
    ann.open("/users")
    ann.page.get_by_role("link", name="Ann Example").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Ann Example")
    ann.sees("north-7")
    runs = ann.region("Runs for this user")
    expect(runs).to_contain_text("nightly")
    expect(runs).to_contain_text("succeeded")


def test_an_editor_pauses_a_schedule_and_resumes_it(people: People, stage: Stage) -> None:
    ann = people.editor
    ann.open(f"/schedules?project={stage.project}&environment=staging")
    nightly = ann.region("Schedule nightly in staging")
    nightly.get_by_role("button", name="Pause").click()
    expect(nightly.get_by_text("paused", exact=True)).to_be_visible()
    nightly.get_by_role("button", name="Resume").click()
    expect(nightly.get_by_text("paused", exact=True)).to_have_count(0)


def test_an_administrator_imports_a_description_searches_it_and_makes_a_system(
    people: People, tmp_path: Path
) -> None:
    file = tmp_path / "warehouse.json"
    file.write_text(as_json(WAREHOUSE))
    ann = people.admin
    ann.open("/systems")
    ann.button("Import…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("OpenAPI or Swagger").set_input_files(file)
    dialog.get_by_role("button", name="Import").click()
    expect(dialog).to_contain_text("Warehouse: 2 operations")
    expect(dialog).to_contain_text("warning")
    ann.button("Close").click()
    ann.page.get_by_label("Search in systems, connectors and operations").fill("listStock stock")
    found = ann.region("Operations").get_by_role("listitem").filter(has_text="/stock")
    found.get_by_role("link", name="Warehouse").click()
    expect(ann.region("Import findings")).to_contain_text("warning")
    ann.button("Make a system…").click()
    dialog.get_by_role("button", name="Create").click()
    dialog.get_by_role("button", name="Open the system").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Warehouse")
    expect(ann.region("Ways to authenticate")).to_contain_text("api-key")


def test_an_administrator_makes_a_key_that_works_until_it_is_revoked(people: People, stage: Stage) -> None:
    ann = people.admin
    ann.open("/access")
    ann.button("New key…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("The user that the key acts as").fill("ci")
    dialog.get_by_label("Role").select_option("")
    dialog.get_by_role("button", name="Create").click()
    key = str(dialog.get_by_role("button", name="Copy: tlk_").get_attribute("aria-label"))[len("Copy: ") :]
    dialog.get_by_role("button", name="I have stored it").click()
    row = ann.region("API key of ci")
    expect(row).to_contain_text("no role")
    here = f"{stage.rest.url}/api/v2/o/{stage.rest.organisation}/projects"
    headers = {"X-API-Key": key}
    assert http("GET", here, headers=headers).status == 404, "it is known, and has no role"
    row.get_by_role("button", name="Revoke").click()
    dialog.get_by_role("button", name="Revoke", exact=True).click()
    expect(row).to_have_count(0)
    assert http("GET", here, headers=headers).status == 401


def test_a_viewer_sees_who_may_what_and_who_changed_what(people: People) -> None:
    ann = people.viewer
    ann.open("/access")
    roles = ann.region("Roles")
    for role in ("viewer", "editor", "admin"):
        expect(roles.get_by_text(role, exact=True).first).to_be_visible()
    ours = ann.page.get_by_role("list", name="Changes").get_by_role("listitem").filter(has_text="Order sync")
    expect(ours.filter(has_text="REST or this console").first).to_be_visible()
    ann.finds_it_accessible()


def test_an_administrator_makes_a_channel_and_a_viewer_sees_it(people: People) -> None:
    ann = people.admin
    ann.open("/notifications")
    ann.button("New channel…").click()
    ann.page.get_by_label("Type").select_option("webhook")
    ann.page.get_by_label("Name").fill("On call")
    ann.page.get_by_label("URL").fill("https://hooks.acme.example/tieline")
    secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    ann.page.get_by_label("Signing secret").fill(secret)
    ann.button("Create").click()
    channel = ann.region("Channel On call")
    expect(channel).to_contain_text("https://hooks.acme.example/tieline")
    assert secret not in ann.page.content()
    bob = people.viewer
    bob.open("/notifications")
    expect(bob.region("Channel On call")).to_be_visible()
    bob.sees_no("button", "Delete")


def test_an_administrator_may_all_of_it(people: People, stage: Stage) -> None:
    ann = people.admin
    ann.open(f"/projects/{stage.project}")
    expect(
        ann.region("Environment staging").get_by_role("button", name="Deploy or roll back…")
    ).to_be_visible()
    expect(ann.page.get_by_text("Pat Doe · admin")).to_be_visible()


def test_what_a_viewer_may_not_do_is_not_offered_and_refused_when_tried(people: People, stage: Stage) -> None:
    stage.shop_is(closed=True)
    run = stage.dead("order-9")
    ann = people.viewer
    offers = re.compile(
        "Deploy|Promote|Suspend|Resume|Replay|Discard|Cancel|Call|Rotate|Run now|Import|Delete|Test"
    )
    for path, seen in (
        (f"/projects/{stage.project}", "Versions"),
        (f"/projects/{stage.project}/runs/{run}", "Why it failed"),
        (f"/runs?project={stage.project}", "Runs"),
        ("/dead-letters", "Dead letters of order.created in Order sync · staging"),
        (f"/schedules?project={stage.project}&environment=staging", "Schedule nightly in staging"),
        ("/systems", "Systems"),
    ):
        ann.open(path)
        expect(ann.region(seen)).to_be_visible()
        expect(ann.main.get_by_role("button", name=offers)).to_have_count(0)
    here = f"/api/v2/o/{stage.rest.organisation}"
    for method, path, body in (
        ("PUT", f"/projects/{stage.project}/deploy?project_env=staging", {}),
        ("POST", f"/projects/{stage.project}/suspend?environment=staging", None),
        ("POST", f"/projects/{stage.project}/runs/{run}/replay", {}),
        ("POST", f"/projects/{stage.project}/environments/call?env_id={stage.staging}", _quote()),
        ("POST", "/users", {"externalId": "eve", "displayName": "Eve"}),
    ):
        assert _tried(ann, method, here + path, body) == 403, path
    assert stage.environment("staging")["status"] == "running"


def _quote() -> dict[str, Any]:
    return {"method": "POST", "urlPath": "/quote", "headers": {}, "body": "{}"}


def _tried(person: Person, method: str, path: str, body: Any) -> int:
    """The status when somebody sends it from the page's own console."""
    script = """async ([method, path, body]) => (await fetch(path, {
        method, body: body === null ? undefined : JSON.stringify(body),
        headers: {'X-Tieline-Console': '1', 'Content-Type': 'application/json'}})).status"""
    status: int = person.page.evaluate(script, [method, path, body])
    return status


def test_who_signs_out_sees_nothing_more(people: People) -> None:
    ann = people.admin
    ann.open("/overview")
    ann.button("Sign out").click()
    expect(ann.page).to_have_url(re.compile("/protocol/openid-connect/logout"))
    ann.open("/overview")
    expect(ann.page.get_by_role("link", name="Continue with Keycloak")).to_be_visible()
    assert "Order sync" not in ann.page.content()
