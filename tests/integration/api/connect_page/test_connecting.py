"""A user connects accounts on the hosted page."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.harness.console.axe import serious_findings
from tests.integration.api.connect_page.conftest import Scene

pytestmark = pytest.mark.cluster


def test_a_user_sees_whose_account_it_is_and_what_each_system_is_for(scene: Scene, page: Page) -> None:
    made = scene.begin()
    page.goto(made["url"])
    expect(page.get_by_text(f"You are connecting accounts for Ann ({made['externalId']}).")).to_be_visible()
    expect(page.get_by_text("Acme Hub")).to_be_visible()
    expect(page.get_by_text("Reads your orders").first).to_be_visible()
    assert made["token"] not in page.url
    assert "#" not in page.url


def only(scene: Scene, template: dict[str, str]) -> tuple[str, ...]:
    return (template["connectionTemplateId"],)


def test_a_user_signs_in_in_a_window_that_closes_itself(
    scene: Scene, page: Page, context: BrowserContext
) -> None:
    made = scene.begin(templates=only(scene, scene.login))
    page.goto(made["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    page.get_by_label("Refund").check()
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Continue to The Shop").click()
    window = opened.value
    expect(window.get_by_text("orders refunds")).to_be_visible()
    with window.expect_event("close"):
        window.get_by_role("link", name="Allow").click()
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    (connection,) = scene.connections(made["externalId"])
    assert connection["credentials"][0]["credential"]["type"] == "oauth2-token"


def test_a_user_signs_in_in_the_same_window_and_comes_back(scene: Scene, page: Page) -> None:
    made = scene.begin(templates=only(scene, scene.login))
    page.goto(made["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    page.get_by_role("button", name="Continue in this window").click()
    page.get_by_role("link", name="Allow").click()
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0
    assert made["token"] not in page.url


def test_a_user_who_refuses_is_told_and_nothing_stays_after_cancelling(scene: Scene, page: Page) -> None:
    made = scene.begin(templates=only(scene, scene.login))
    page.goto(made["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Continue to The Shop").click()
    opened.value.get_by_role("link", name="Refuse").click()
    expect(page.get_by_text("Access was not allowed, by you or by the system.").first).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Connect The Shop")).to_be_visible()
    assert scene.connections(made["externalId"]) == []


def test_a_user_enters_a_key_and_settings_and_disconnects(scene: Scene, page: Page) -> None:
    made = scene.begin(templates=only(scene, scene.key))
    page.goto(made["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    page.get_by_label("Key or secret").fill("k3y")
    assert serious_findings(page) == []
    page.get_by_role("button", name="Connect The Shop").click()
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    page.get_by_label("Region").select_option("eu")
    page.get_by_label("Orders a day").fill("7")
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_text("Saved. You can close this page.").first).to_be_visible()
    path = f"/environment/{scene.environment}/users/{made['externalId']}/activations"
    (activation,) = scene.admin.ok("GET", path)
    assert activation["dynamicVariables"] == {"region": "eu", "limit": 7}
    page.get_by_role("button", name="Disconnect: The Shop").click()
    page.get_by_role("button", name="Disconnect", exact=True).click()
    expect(page.get_by_role("button", name="Connect The Shop")).to_be_visible()
    assert scene.connections(made["externalId"]) == []


def test_the_page_is_accessible_and_speaks_the_readers_language(
    scene: Scene, context: BrowserContext
) -> None:
    browser = context.browser
    assert browser is not None
    german = browser.new_context(locale="de-AT", color_scheme="dark")
    page = german.new_page()
    page.goto(scene.begin()["url"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Ihre Werkzeuge")
    expect(page.get_by_text("Liest Aufträge").first).to_be_visible()
    assert page.locator("html").get_attribute("lang") == "de"
    assert serious_findings(page) == []
    german.close()


def test_a_session_that_has_ended_says_so(scene: Scene, page: Page) -> None:
    made = scene.begin()
    scene.admin.ok("DELETE", f"/connect-sessions/{made['id']}", status=204)
    page.goto(made["url"])
    expect(page.get_by_role("main")).to_contain_text("This link has ended")
