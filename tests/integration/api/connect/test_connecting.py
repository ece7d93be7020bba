"""A user connects accounts on the hosted page."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.harness.console.axe import findings, findings_at_twice_the_size, findings_in_both_schemes
from tests.harness.console.chromium import open_context
from tests.integration.api.connect.conftest import FAR_HOST, Scene
from tests.integration.api.connect.product import GOOD_KEY
from tests.integration.api.objects import make_project, make_template

pytestmark = pytest.mark.cluster


def test_a_user_sees_whose_account_it_is_and_what_each_system_is_for(scene: Scene, page: Page) -> None:
    made = scene.begin()
    page.goto(made["url"])
    expect(page.get_by_text(f"You are connecting accounts for Ann ({made['externalId']}).")).to_be_visible()
    expect(page.get_by_text("Acme Hub")).to_be_visible()
    expect(page.get_by_text("Reads your orders").first).to_be_visible()
    assert made["token"] not in page.url
    assert "#" not in page.url


def test_a_page_without_one_of_its_scripts_loads_again_and_then_says_so(scene: Scene, page: Page) -> None:
    page.route("**/dom.js", lambda route: route.abort(), times=1)
    made = scene.begin()
    page.goto(made["url"])
    expect(page.get_by_text(f"You are connecting accounts for Ann ({made['externalId']}).")).to_be_visible()
    page.route("**/dom.js", lambda route: route.abort())
    page.goto(scene.begin()["url"])
    page.reload()
    expect(page.get_by_role("alert")).to_have_text("The page was not loaded completely. Load it again.")


def test_the_logos_of_the_brand_and_of_its_systems_are_shown(scene: Scene, page: Page) -> None:
    page.goto(scene.begin(templates=only(scene, scene.key))["url"])
    expect(page.get_by_role("heading", name="The Shop")).to_be_visible()
    for place in ("header", "article"):
        logo = page.locator(place).locator("img")
        expect(logo).to_have_count(1)
        expect(logo).to_be_visible()
        expect(logo).to_have_js_property("naturalWidth", 1)
    expect(page.locator("article .mark")).to_have_count(0)


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
    expect(page.get_by_text("You are connecting accounts for Ann")).to_be_visible()
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    assert page.evaluate("localStorage.length") == 0
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
    assert [*findings_in_both_schemes(page), *findings_at_twice_the_size(page)] == []
    page.get_by_role("button", name="Connect The Shop").click()
    expect(page.get_by_text("Saved, and not tested yet", exact=True)).to_be_visible()
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


def test_a_user_is_told_that_an_account_is_connected_too_often(scene: Scene, page: Page) -> None:
    made = scene.begin(templates=only(scene, scene.key))
    page.goto(made["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    page.get_by_label("Key or secret").fill("k3y")
    page.get_by_role("button", name="Connect The Shop").click()
    expect(page.get_by_text("Saved, and not tested yet", exact=True)).to_be_visible()
    warning = page.get_by_text("This account is connected several times")
    expect(warning).to_have_count(0)

    def with_warning(route: Route) -> None:
        answer = route.fetch()
        content = answer.json()
        for connection in content["connections"]:
            connection["credentials"][0]["credential"]["warnings"] = ["2 connections hold authorisations"]
        route.fulfill(response=answer, json=content)

    page.route("**/connect/session", with_warning)
    page.reload()
    expect(warning).to_be_visible()


def test_the_page_is_accessible_and_speaks_the_readers_language(
    scene: Scene, context: BrowserContext
) -> None:
    browser = context.browser
    assert browser is not None
    german = open_context(browser, locale="de-AT", color_scheme="dark")
    page = german.new_page()
    page.goto(scene.begin()["url"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Ihre Werkzeuge")
    expect(page.get_by_text("Liest Aufträge").first).to_be_visible()
    assert page.locator("html").get_attribute("lang") == "de"
    assert [*findings_in_both_schemes(page), *findings_at_twice_the_size(page)] == []
    german.close()


def test_a_session_that_has_ended_says_so(scene: Scene, page: Page) -> None:
    made = scene.begin()
    scene.admin.ok("DELETE", f"/connect-sessions/{made['id']}", status=204)
    page.goto(made["url"])
    expect(page.get_by_role("main")).to_contain_text("This link has expired")


def test_a_wrong_key_is_refused_with_the_systems_answer(scene: Scene, page: Page) -> None:
    made = scene.begin(templates=only(scene, scene.checked))
    page.goto(made["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    page.get_by_label("Key or secret").fill("a-mistyped-key")
    page.get_by_role("button", name="Connect The Shop").click()
    problem = page.get_by_role("form").get_by_text("The Shop rejects the credentials")
    expect(problem).to_contain_text("no such key")
    expect(page.get_by_text("Connected", exact=True)).to_have_count(0)
    assert "a-mistyped-key" not in problem.inner_text()
    (connection,) = scene.connections(made["externalId"])
    assert connection["state"] == "refused"
    assert (connection["refused"]["status"], "no such key" in connection["refused"]["said"]) == (401, True)
    page.get_by_label("Key or secret").fill(GOOD_KEY)
    page.get_by_role("button", name="Connect The Shop").click()
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    (connection,) = scene.connections(made["externalId"])
    assert (connection["state"], "lastSuccessAt" in connection) == ("works", True)


def test_closing_the_window_lets_the_user_start_again(scene: Scene, page: Page) -> None:
    page.goto(scene.begin(templates=only(scene, scene.login))["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    proceed = page.get_by_role("button", name="Continue to The Shop")
    with page.expect_popup() as opened:
        proceed.click()
    opened.value.get_by_role("link", name="Allow").wait_for()
    opened.value.close()
    expect(page.get_by_text("you can start again")).to_be_visible()
    with page.expect_popup() as again:
        proceed.click()
    again.value.get_by_role("link", name="Allow").click()
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()


def test_a_reload_goes_on_and_done_is_in_sight(scene: Scene, page: Page) -> None:
    page.set_viewport_size({"width": 420, "height": 360})
    made = scene.begin()
    page.goto(made["url"])
    page.reload()
    expect(page.get_by_text(f"You are connecting accounts for Ann ({made['externalId']}).")).to_be_visible()
    expect(page.get_by_role("button", name="Done")).to_be_in_viewport(ratio=1)
    page.goto("about:blank")
    scene.admin.ok("DELETE", f"/connect-sessions/{made['id']}", status=204)
    page.goto(made["url"])
    expect(page.get_by_role("main")).to_contain_text("This link has expired")
    assert page.evaluate("sessionStorage.length") == 0


def test_over_an_insecure_address_it_says_so_before_signing_in(scene: Scene, page: Page) -> None:
    made = scene.begin(templates=only(scene, scene.login))
    page.goto(made["url"].replace("127.0.0.1", FAR_HOST))
    page.get_by_role("button", name="Connect The Shop").click()
    expect(page.get_by_text("Signing in needs https")).to_be_visible()
    expect(page.get_by_role("button", name="Continue to The Shop")).to_be_disabled()
    expect(page.get_by_role("button", name="Continue in this window")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_catalogue_says_where_to_find_a_key_in_a_third_language_of_the_brand(
    scene: Scene, context: BrowserContext, scheme: Literal["light", "dark"]
) -> None:
    project = make_project(scene.admin)
    system = scene.admin.ok("POST", "/catalogue/airtable/systems", {"schemes": ["token"]}, status=201)
    make_template(scene.admin, project=project, system=system["id"], name="tables", dynamic=True)
    made = scene.begin(environmentId=project["environments"][0]["id"])
    browser = context.browser
    assert browser is not None
    french = open_context(browser, locale="fr-CA", color_scheme=scheme)
    page = french.new_page()
    page.goto(made["url"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Vos outils")
    assert page.locator("html").get_attribute("lang") == "fr"
    expect(page.locator(".mark")).to_have_text("AI")
    page.get_by_role("button", name="Connecter Airtable").click()
    page.get_by_text("Où le trouver ?").click()
    expect(page.get_by_text("Open airtable.com/create/tokens")).to_be_visible()
    link = page.get_by_role("link", name="More in its documentation")
    expect(link).to_have_attribute(
        "href", "https://airtable.com/developers/web/guides/personal-access-tokens"
    )
    # What the brand does not say in French is in English.
    expect(page.get_by_label("Key or secret")).to_be_visible()
    assert [*findings(page), *findings_at_twice_the_size(page)] == []
    french.close()
