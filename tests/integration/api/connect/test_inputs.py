"""A user says which shop is theirs on the hosted page, and the application may say it in their place."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.harness.console.axe import findings_at_twice_the_size, findings_in_both_schemes
from tests.integration.api.connect.conftest import Scene

pytestmark = pytest.mark.cluster

HOSTILE = (
    "evil.com/",
    "a.b",
    "x@evil",
    "..",
    "shöp",
    "a" * 300,
    "%2e",
    "UPPER",
    "https://evil.com/.shop.example",
)


def begin(scene: Scene, **more: Any) -> dict[str, Any]:
    return scene.begin(templates=(scene.shop["connectionTemplateId"],), **more)


def sign_in(page: Page) -> None:
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Continue to The Shop").click()
    window = opened.value
    with window.expect_event("close"):
        window.get_by_role("link", name="Allow").click()


def shop_of(scene: Scene, user: str) -> list[dict[str, str]]:
    (connection,) = scene.connections(user)
    assert connection["state"] == "not_checked"
    found: list[dict[str, str]] = connection["variables"]
    return found


def test_a_pasted_address_becomes_the_users_shop(scene: Scene, page: Page) -> None:
    made = begin(scene)
    page.goto(made["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    field = page.get_by_label("Shop", exact=True)
    expect(page.get_by_text("For example: my-shop")).to_be_visible()
    expect(page.get_by_text(".shop.example", exact=True)).to_be_visible()
    assert [*findings_in_both_schemes(page), *findings_at_twice_the_size(page)] == []
    field.fill(" https://my-shop.shop.example/admin?x=1 ")
    field.blur()
    expect(field).to_have_value("my-shop")
    before = len(scene.provider.shops)
    sign_in(page)
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    expect(page.get_by_text("Shop: my-shop.shop.example")).to_be_visible()
    assert scene.provider.shops[before:] == ["my-shop"]
    assert shop_of(scene, made["externalId"]) == [{"name": "shop", "value": "my-shop"}]
    page.get_by_role("button", name="Connect again: The Shop").click()
    expect(field).to_have_value("my-shop")
    field.fill("another")
    sign_in(page)
    expect(page.get_by_text("Shop: another.shop.example")).to_be_visible()
    assert scene.provider.shops[before:] == ["my-shop", "another"]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_send_nobody_anywhere(
    scene: Scene, page: Page, complaints: list[str], value: str
) -> None:
    made = begin(scene)
    page.goto(made["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    field, seen = page.get_by_label("Shop", exact=True), len(scene.provider.seen)
    field.fill(value)
    page.get_by_role("button", name="Continue to The Shop").click()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("form").get_by_text("my-shop").first).to_be_visible()
    assert len(scene.provider.seen) == seen
    assert scene.connections(made["externalId"]) == []
    complaints[:] = [one for one in complaints if "422" not in one]  # the browser logs the API's answer


def test_the_application_says_which_shop_it_is(scene: Scene, page: Page) -> None:
    for hidden in (False, True):
        made = begin(scene, variables=[{"name": "shop", "value": "fixed", "hidden": hidden}])
        page.goto(made["url"])
        page.get_by_role("button", name="Connect The Shop").click()
        expect(page.get_by_role("button", name="Continue to The Shop")).to_be_visible()
        expect(page.get_by_label("Shop", exact=True)).to_have_count(0)
        expect(page.get_by_text("fixed.shop.example")).to_have_count(0 if hidden else 1)
        sign_in(page)
        expect(page.get_by_text("Connected", exact=True)).to_be_visible()
        assert scene.provider.shops[-1] == "fixed"
        assert shop_of(scene, made["externalId"]) == [{"name": "shop", "value": "fixed"}]


def test_two_tabs_at_once_each_ask_their_own_shop(scene: Scene, page: Page, context: BrowserContext) -> None:
    made = begin(scene)
    page.goto(made["url"])
    page.get_by_role("button", name="Connect The Shop").click()
    page.get_by_label("Shop", exact=True).fill("first")
    sign_in(page)
    expect(page.get_by_text("Shop: first.shop.example")).to_be_visible()
    (connection,) = scene.connections(made["externalId"])
    windows, before = [], len(scene.provider.shops)
    for shop in ("second", "third"):
        again = begin(scene, user={"externalId": made["externalId"]}, connection=connection["id"])
        tab = context.new_page()
        tab.goto(again["url"])
        tab.get_by_role("button", name="Connect again: The Shop").click()
        tab.get_by_label("Shop", exact=True).fill(shop)
        with tab.expect_popup() as opened:
            tab.get_by_role("button", name="Continue to The Shop").click()
        windows.append(opened.value)
    for window, shop in zip(windows, ("second", "third"), strict=True):
        with window.expect_event("close"):
            window.get_by_role("link", name="Allow").click()
        assert shop_of(scene, made["externalId"]) == [{"name": "shop", "value": shop}]
    assert scene.provider.shops[before:] == ["second", "third"]
