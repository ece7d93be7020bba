"""A person connects by OAuth 1.0 in a real browser: initialise, the provider's page, our callback page."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.identity.browser import Browser, chromium
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_system, make_template, stored
from tests.unit.oauth.oauth1_provider import OAuth1Provider
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import tokens_name

pytestmark = pytest.mark.cluster

OUTCOME = "document.getElementById('card')?.dataset.outcome"


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running_browser:
        yield running_browser


async def test_the_page_finishes_by_itself_and_tells_who_declines_so(
    browser: Browser, caller: Client, signing: OAuth1Provider, kubectl: Kubectl, oauth_org: Organisation
) -> None:
    scheme = signing.scheme()
    system = make_system(caller, [scheme])["id"]
    _, template = make_template(caller, system=system)
    credential = new_id()
    named = {"credential": {"id": credential, "organisationId": caller.organisation}}
    begin = {**named, "params": {"shop": "north"}}

    def url() -> str:
        found: str = caller.ok("POST", f"/systems/{system}/oauth1/initialise", begin)["url"]
        return found

    scheme["oauth1"].pop("consumerSecret")
    given = {"id": credential, "type": "oauth1", "data": {"oauth1": signing.agree(url())}}
    item = {"id": "login", "authSchemeConfig": scheme, "credential": given}
    body = {**_link(template), "connection": {"name": "Orders", "credentials": [item]}}
    connection = caller.ok("POST", "/connections", body, status=201)["id"]

    def token() -> str:
        secret = stored(kubectl, oauth_org, "secret", tokens_name(connection.lower(), "login"))
        return base64.b64decode(secret["data"]["accessToken"]).decode()

    before = token()
    page = await browser.open(url())
    await page.until(f"{OUTCOME} === 'done'")
    text = await page.text()
    assert "Connected" in text
    assert "Orders" in text
    assert "oauth_verifier" not in await page.url(), "a verifier does not stay in the address bar"
    assert token() != before
    signing.declines = True
    declined = await browser.open(url())
    await declined.until(f"{OUTCOME} === 'failed'")
    assert "Access was not allowed" in await declined.text()


def _link(template: dict[str, str]) -> dict[str, str]:
    return {"connectionTemplateId": template["connectionTemplateId"]}
