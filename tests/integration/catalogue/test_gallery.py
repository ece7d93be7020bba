"""From the console's gallery to a first call: what an administrator does, in Chromium."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.harness.cluster.kubectl import Organisation
from tests.harness.console.built import built_console
from tests.harness.console.chromium import SIZE, chromium, open_context
from tests.integration.api.conftest import Client, Server
from tests.integration.api.console.person import Person
from tests.integration.api.objects import make_project
from tests.integration.catalogue.emulated_internet import EmulatedInternet

pytestmark = pytest.mark.cluster

KEY = "github"
COUNTED = """
for (const kind of ["click", "input"])
  addEventListener(kind, (event) => { counted(kind, String(event.target.outerHTML).slice(0, 80)); }, true);
"""
"""Tells the test of each click and each text that is entered, in all windows."""
ACTIONS = 9
"""What takes a person from the gallery to a first call: clicks, and fields to fill in."""


@pytest.fixture(scope="module")
def emulated_keys() -> Sequence[str]:
    return [KEY]


@pytest.fixture(scope="module")
def platform_settings() -> Mapping[str, Any]:
    return {"console_folder": built_console()}


def provider_page(page: Page) -> Page:
    """The window with the provider's consent."""
    for _ in range(200):
        for one in page.context.pages:
            if "github.com/login/oauth" in one.url and one.get_by_role("button", name="Allow").count():
                return one
        page.wait_for_timeout(100)
    raise AssertionError([one.url for one in page.context.pages])


def test_from_the_gallery_to_a_first_call(
    platform: Server, admin: Client, internet: EmulatedInternet, organisation_of_catalogue: Organisation
) -> None:
    provider = internet.emulator.providers[KEY]
    make_project(admin)
    with chromium(*internet.browser_options) as browser:
        context = open_context(browser, viewport=SIZE, locale="en-GB", ignore_https_errors=True)
        ann = Person(context.new_page(), platform.url, organisation_of_catalogue.namespace)
        ann.sign_in(str(admin.token))
        actions: list[str] = []
        context.expose_function("counted", lambda kind, name: actions.append(f"{kind} {name}"))
        context.add_init_script(COUNTED)
        ann.page.evaluate(COUNTED)
        begun = time.monotonic()
        ann.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Catalogue").click()
        ann.page.get_by_label("Search providers").fill("pull requests")
        ann.finds_it_accessible()
        ann.main.get_by_role("link", name="GitHub").click()
        expect(ann.page.get_by_role("heading", level=1)).to_have_text("GitHub")
        ann.sees(f"{platform.url}/oauth2/callback")
        ann.sees("Authorization callback URL")
        expect(ann.region("Scopes")).to_contain_text("Read the profile")
        ann.finds_it_accessible()
        ann.page.get_by_label("Client ID").fill(provider.client.id)
        ann.page.get_by_label("Client secret").fill(provider.client.secret)
        ann.button("Add and connect…").click()
        ann.page.get_by_role("dialog").get_by_role("button", name="Create").click()
        ann.region("Credentials").get_by_role("button", name=re.compile("^Connect( again)?…$")).click()
        provider_page(ann.page).get_by_role("button", name="Allow").evaluate(
            "it => setTimeout(() => it.click())"
        )
        expect(ann.region("Credentials")).to_contain_text("Connected. The system accepts the credentials.")
        logging.getLogger(__name__).info(
            "From the gallery to a first call: %.1f s, %d actions", time.monotonic() - begun, len(actions)
        )
        assert len(actions) <= ACTIONS, actions
        assert any(one.url.path == "/user" for one in provider.seen)
        assert provider.client.secret not in ann.page.content()
        context.close()
