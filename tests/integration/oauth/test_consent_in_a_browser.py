"""A person connects in a real browser: our front end, Keycloak's login, our callback page."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.identity.browser import Browser, Page, chromium
from tests.harness.identity.keycloak import Keycloak, Person
from tests.harness.processes.running_api import RunningApi
from tests.harness.session.waiting import eventually_async
from tests.integration.api.conftest import Client
from tests.integration.oauth.front_end import FrontEnd
from tests.integration.oauth.shops import Shop, tokens_of

pytestmark = pytest.mark.cluster

OUTCOME = "document.getElementById('card')?.dataset.outcome"


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        yield running


def application(front_end: FrontEnd, api: RunningApi, shop: Shop) -> str:
    """The URL of the page that connects a shop."""
    return front_end.page(
        api=api.url,
        organisation=shop.caller.organisation,
        token=shop.caller.token,
        system=shop.system,
        template=shop.template,
        initialise=shop.initialise(),
        credential=shop.credential("oauth2-code"),
        name="Orders",
    )


async def log_in(page: Page, person: Person) -> None:
    await page.fill("#username", person.name)
    await page.fill("#password", person.password)
    await page.click("#kc-login, [name=login]")


async def status(page: Page) -> str:
    return str(await page.evaluate("document.getElementById('status').textContent"))


async def test_a_person_connects_in_a_popup(
    browser: Browser,
    front_end: FrontEnd,
    api: RunningApi,
    caller: Client,
    keycloak: Keycloak,
    kubectl: Kubectl,
    oauth_org: Organisation,
) -> None:
    shop, person = Shop(caller, keycloak, keycloak.register(consentRequired=True)), keycloak.person()
    page = await browser.open(application(front_end, api, shop))
    await page.click("#connect")
    popup = await browser.popup(page)
    await log_in(popup, person)
    await popup.click("[name=accept]")
    await popup.until(f"{OUTCOME} === 'done'")
    assert "allowed access" in await popup.text()
    assert "code" not in await popup.url(), "a code does not stay in the address bar"
    await keep(popup, "popup-done")
    await page.until("!document.getElementById('status').textContent.startsWith('not')")
    said, kind, connection = (await status(page)).split()
    assert (said, kind) == ("connected:", "oauth2-token")
    tokens = tokens_of(kubectl, oauth_org, connection)
    assert {"accessToken", "refreshToken"} <= tokens.keys()
    assert shop.shown(connection)["data"]["oauth2Token"]["scopes"] == tokens["scopes"].split()


async def test_a_person_who_declines_reads_so_and_the_application_learns_it(
    browser: Browser, front_end: FrontEnd, api: RunningApi, caller: Client, keycloak: Keycloak
) -> None:
    shop = Shop(caller, keycloak, keycloak.register(consentRequired=True))
    page = await browser.open(application(front_end, api, shop))
    await page.click("#connect")
    popup = await browser.popup(page)
    await log_in(popup, keycloak.person())
    await popup.click("[name=cancel]")
    await popup.until(f"{OUTCOME} === 'failed'")
    text = await popup.text()
    assert "Not connected" in text
    assert "Access was not allowed" in text
    await keep(popup, "declined")
    await page.until("document.getElementById('status').textContent === 'refused: access_denied'")
    assert caller.ok("GET", f"/connections?system_id={shop.system}")["items"] == []


async def test_without_an_opener_the_page_finishes_by_itself_and_says_so(
    browser: Browser,
    front_end: FrontEnd,
    caller: Client,
    keycloak: Keycloak,
    kubectl: Kubectl,
    oauth_org: Organisation,
) -> None:
    shop, person = Shop(caller, keycloak, keycloak.register()), keycloak.person()
    connection = shop.connect(person)["id"]
    before = tokens_of(kubectl, oauth_org, connection)
    page = await browser.open(front_end.link(shop.begin()))
    await page.click("#connect")
    tab = await own_tab(browser, page)
    await log_in(tab, person)
    await tab.until(f"{OUTCOME} === 'done'")
    text = await tab.text()
    assert "Connected" in text
    assert "Orders" in text
    assert shop.name in text
    assert "close this window" in text
    assert "code" not in await tab.url()
    await keep(tab, "alone-done")
    after = tokens_of(kubectl, oauth_org, connection)
    assert after["refreshToken"] != before["refreshToken"]
    # Pressing "back" or reloading replays nothing.
    await tab.call("Page.reload")
    await tab.until(f"{OUTCOME} === 'failed'")
    assert "Nothing to connect" in await tab.text()
    assert tokens_of(kubectl, oauth_org, connection) == after


async def test_a_state_that_is_not_good_is_told_in_words(
    browser: Browser, api: RunningApi, caller: Client, keycloak: Keycloak
) -> None:
    shop = Shop(caller, keycloak, keycloak.register())
    url = shop.begin()
    location = keycloak.log_in(url, keycloak.person())
    forged = location.replace("state=", "state=X")
    tab = await browser.open(forged)
    await tab.until(f"{OUTCOME} === 'failed'")
    text = await tab.text()
    assert "This authorisation is not known here" in text
    assert "state" not in text, "nobody knows what a state is"
    await keep(tab, "bad-state")


async def test_what_a_provider_writes_into_the_query_is_shown_as_text(
    browser: Browser, api: RunningApi
) -> None:
    description = "%3Cimg%20src%3Dx%20onerror%3D%22document.title%3D%27owned%27%22%3E%20No%20seats%20left"
    tab = await browser.open(
        f"{api.url}/oauth2/callback?error=quota_exceeded&error_description={description}&state=x"
    )
    await tab.until(f"{OUTCOME} === 'failed'")
    text = await tab.text()
    assert "<img src=x" in text
    assert "No seats left" in text
    assert await tab.evaluate("document.images.length") == 0
    assert "owned" not in await tab.evaluate("document.title")
    await keep(tab, "provider-error")
    installed = await browser.open(f"{api.url}/oauth2/callback?code=c0de&shop=my-shop")
    await installed.until(f"{OUTCOME} === 'failed'")
    assert "uses this system and connect there" in await installed.text(), (
        "it began at the provider, without a state"
    )


async def test_a_page_that_nobody_has_allowed_is_not_told_the_code(
    browser: Browser, front_end: FrontEnd, api: RunningApi
) -> None:
    page = await browser.open(
        front_end.stranger(f"{api.url}/oauth2/callback?code=the-code&state=the-state", "the-state")
    )
    await page.click("#connect")
    popup = await browser.popup(page)
    await popup.until(f"{OUTCOME} === 'waiting'")
    asked = "performance.getEntriesByType('resource').some((one) => one.name.endsWith('/opener'))"
    await popup.until(asked)
    await asyncio.sleep(1)  # the page has asked five times by now
    assert await page.evaluate("heard") == []


async def own_tab(browser: Browser, page: Page) -> Page:
    """The tab that a link has opened which does not let it know its opener."""

    async def find() -> Any:
        found = (await browser.call("Target.getTargets"))["targetInfos"]
        tabs = [one for one in found if one["type"] == "page" and one["targetId"] != page.target]
        return next((one["targetId"] for one in tabs if one["url"].startswith("http")), None)

    return await browser.attach(await eventually_async("a tab", find))


async def keep(page: Page, name: str) -> None:
    """A screenshot for people, where TIELINE_TEST_SCREENSHOTS names a folder."""
    folder = os.environ.get("TIELINE_TEST_SCREENSHOTS")
    if folder:
        path = Path(folder, f"{name}.png")
        await asyncio.to_thread(path.write_bytes, await page.screenshot())
