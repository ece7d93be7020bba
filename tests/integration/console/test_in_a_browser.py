"""A real browser keeps the session where it should, and runs the page under its policy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.cluster.kubectl import Organisation
from tests.harness.identity.browser import READY, Browser
from tests.integration.api.conftest import Server

pytestmark = pytest.mark.cluster

SIGN_IN = """fetch("/console/session", {{method: "POST", headers: {{"Content-Type": "application/json"}},
    body: JSON.stringify({{token: "{token}"}})}}).then((answer) => answer.status)"""
CALL = """fetch("{path}", {{headers: {{"X-Tieline-Console": "1"}}}}).then((answer) => answer.status)"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_on_the_readers_own_machine_plain_http_is_enough(
    browser: Browser,
    replicas: tuple[Server, Server],
    org: Organisation,
    token_of: Callable[[str], str],
    host: str,
) -> None:
    page = await browser.open(replicas[0].url.replace("127.0.0.1", host) + "/console/")
    await page.until(f"{READY} && document.title === 'Console runs'")
    path = CALL.format(path=f"/api/v2/o/{org.id}/projects")
    assert await page.evaluate(path) == 401
    assert await page.evaluate(SIGN_IN.format(token=token_of("admin"))) == 204
    await page.until(f"{path}.then((status) => status === 200)")
    assert await page.evaluate("document.cookie") == "", "no script can read a cookie of the console"
    kept = (await page.call("Network.getCookies"))["cookies"]
    assert {one["name"] for one in kept} == {"__Host-tieline", "__Host-tieline-seen"}
    for one in kept:
        assert (one["httpOnly"], one["secure"], one["sameSite"], one["path"]) == (True, True, "Strict", "/")
    assert await page.evaluate("fetch('/console/session', {method: 'DELETE'}).then((a) => a.status)") == 204
    assert (await page.call("Network.getCookies"))["cookies"] == []
