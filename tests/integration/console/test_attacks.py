"""What other pages, other people and made-up cookies cannot do to who is signed in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import Organisation
from tests.harness.identity.browser import READY, Browser, Page
from tests.harness.processes.local_servers import HandlerServer, Quiet
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import ORIGIN, Server
from tests.integration.console.conftest import Visitor

pytestmark = pytest.mark.cluster

SESSION, SEEN = "__Host-tieline", "__Host-tieline-seen"


class Elsewhere(HandlerServer):
    """A page of somebody else, on another port: of the same site at 127.0.0.1, of another one at localhost."""

    def __init__(self) -> None:
        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>Win</title><h1>Win</h1>")

        super().__init__(Handler)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    with Elsewhere() as running:
        yield running


@pytest.fixture
def projects(org: Organisation) -> str:
    return f"/api/v2/o/{org.id}/projects"


@pytest.fixture
def victim(visitor: Visitor, projects: str, token_of: Callable[[str], str]) -> Visitor:
    """An administrator who is signed in."""
    assert visitor.sign_in(token_of("admin")).status == 204
    eventually("the role known", lambda: visitor.api(projects).status == 200)
    return visitor


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": ORIGIN},
        {"Origin": "null"},
    ],
)
def test_a_request_of_another_page_is_as_one_of_nobody(
    victim: Visitor, projects: str, headers: dict[str, str]
) -> None:
    """Even with the header, which browsers do not let other pages send."""
    assert victim.api(projects, **headers).status == 401
    assert victim.api(projects, "POST", {"name": "Forged"}, **headers).status == 401


def test_cors_lets_no_other_page_send_the_header_or_cookies(victim: Visitor, projects: str) -> None:
    preflight = victim.send(
        "OPTIONS",
        projects,
        None,
        {
            "Origin": ORIGIN,
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "x-tieline-console",
        },
    )
    assert preflight.headers["Access-Control-Allow-Origin"] == ORIGIN, "the origin may call with a token"
    assert "x-tieline-console" not in preflight.headers["Access-Control-Allow-Headers"].lower()
    assert "Access-Control-Allow-Credentials" not in preflight.headers
    answer = victim.send("GET", "/console/session", None, {"Origin": ORIGIN})
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_no_form_signs_the_victim_in_as_somebody_else(
    victim: Visitor, token_of: Callable[[str], str], kind: str
) -> None:
    body = json.dumps({"token": token_of("viewer")}).encode()
    answer = victim.send("POST", "/console/session", body, {"Content-Type": kind})
    assert answer.status == 415
    assert victim.set_cookies == []
    foreign = {"Content-Type": "application/json", "Origin": "https://evil.example"}
    assert victim.send("POST", "/console/session", body, foreign).status == 403
    assert victim.send("DELETE", "/console/session", None, foreign).status == 403
    assert victim.set_cookies == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_another_page_in_the_same_browser_gets_nothing_done(
    browser: Browser,
    replicas: tuple[Server, Server],
    elsewhere: Elsewhere,
    projects: str,
    token_of: Callable[[str], str],
    host: str,
) -> None:
    """From the same site, where the browser sends even Strict cookies, and from another one."""
    api = replicas[0].url
    page = await browser.open(f"{api}/console/")
    await page.until(f"{READY} && document.title === 'Console runs'")
    body = json.dumps(json.dumps({"token": token_of("admin")}))
    sign_in = (
        "fetch('/console/session', {method: 'POST', headers: {'Content-Type': 'application/json'}, "
        f"body: {body}}}).then((answer) => answer.status)"
    )
    assert await page.evaluate(sign_in) == 204
    own = f"fetch({json.dumps(projects)}, {{headers: {{'X-Tieline-Console': '1'}}}})"
    await page.until(f"{own}.then((answer) => answer.status === 200)")
    before = await cookies_of(page)
    other = await browser.open(f"http://{host}:{elsewhere.port}/")
    await other.until(f"{READY} && document.title === 'Win'")
    target = json.dumps(api + projects)
    options = "method: 'POST', credentials: 'include', body: JSON.stringify({name: 'Forged'})"
    with_header = f"{options}, headers: {{'X-Tieline-Console': '1', 'Content-Type': 'application/json'}}"
    for init in (with_header, f"{options}, headers: {{'Content-Type': 'text/plain'}}"):
        assert (
            await other.evaluate(f"fetch({target}, {{{init}}}).then(() => 'read', () => 'refused')")
            == "refused"
        )
    simple = f"fetch({target}, {{{options}, mode: 'no-cors'}}).then(() => 'answered', () => 'refused')"
    assert await other.evaluate(simple) == "refused"
    out = f"fetch('{api}/console/session', {{method: 'DELETE', credentials: 'include'}})"
    assert await other.evaluate(f"{out}.then(() => 'read', () => 'refused')") == "refused"
    form = (
        "(() => { const form = document.createElement('form'); form.method = 'post'; form.enctype = 'text/plain'; "
        f"form.action = '{api}/console/session'; form.innerHTML = '<input name=\"token\" value=\"x\">'; "
        "document.body.append(form); form.submit(); })()"
    )
    await other.evaluate(form)
    await other.until(
        f"location.href === '{api}/console/session' && document.body.innerText.includes('forbidden')"
    )
    assert await cookies_of(page) == before
    assert "Forged" not in await page.evaluate(f"{own}.then((answer) => answer.text())")


async def test_the_page_stands_in_no_frame(
    browser: Browser, replicas: tuple[Server, Server], elsewhere: Elsewhere
) -> None:
    other = await browser.open(f"http://127.0.0.1:{elsewhere.port}/")
    await other.until(f"{READY} && document.title === 'Win'")
    framed = (
        "new Promise((done) => { const frame = document.createElement('iframe'); "
        f"frame.src = '{replicas[0].url}/console/'; frame.onload = done; document.body.append(frame); }})"
    )
    await other.evaluate(f"{framed}.then(() => true)")
    frames = (await other.call("Page.getFrameTree"))["frameTree"]["childFrames"]
    assert [one["frame"].get("unreachableUrl") or one["frame"]["url"] for one in frames]
    assert all(one["frame"]["url"].startswith("chrome-error:") for one in frames)


@pytest.mark.parametrize(
    "value",
    ["", "1.", "1.AAAA", "4." + "A" * 3800, "1.%00", "1." + "é", '"1.x"', "1." + "A" * 20_000, "9" * 3000],
)
def test_a_made_up_cookie_is_nobody_and_no_failure_of_the_server(
    victim: Visitor, projects: str, value: str
) -> None:
    forged = Visitor(victim.url, {**victim.cookies, SESSION: value.encode().decode("latin-1")})
    assert forged.api(projects).status == 401
    assert forged.session()["signedIn"] is False


def test_cookies_of_two_people_do_not_mix(
    victim: Visitor, projects: str, replicas: tuple[Server, Server], token_of: Callable[[str], str]
) -> None:
    other = Visitor(replicas[0].url)
    assert other.sign_in(token_of("viewer")).status == 204
    assert Visitor(victim.url, {**victim.cookies, SEEN: other.cookies[SEEN]}).api(projects).status == 401
    assert Visitor(victim.url, {SESSION: victim.cookies[SESSION]}).api(projects).status == 401


def test_a_cookie_that_somebody_has_slipped_in_beside_counts_for_nothing(
    victim: Visitor, projects: str, replicas: tuple[Server, Server], token_of: Callable[[str], str]
) -> None:
    other = Visitor(replicas[0].url)
    other.sign_in(token_of("viewer"))
    for first, second in ((victim, other), (other, victim)):
        header = "; ".join(
            f"{name}={value}" for one in (first, second) for name, value in one.cookies.items()
        )
        answer = Visitor(victim.url).send("GET", projects, None, {"X-Tieline-Console": "1", "Cookie": header})
        assert answer.status == 401


def test_signing_in_keeps_nothing_of_a_session_that_was_there(
    victim: Visitor, token_of: Callable[[str], str]
) -> None:
    before = dict(victim.cookies)
    assert victim.sign_in(token_of("viewer")).status == 204
    assert victim.cookies[SESSION] != before[SESSION]
    assert victim.cookies[SEEN] != before[SEEN]
    mixed = Visitor(victim.url, {SESSION: victim.cookies[SESSION], SEEN: before[SEEN]})
    assert mixed.session()["signedIn"] is False


def test_over_plain_http_nobody_signs_in(visitor: Visitor, token_of: Callable[[str], str]) -> None:
    answer = visitor(
        "POST",
        "/console/session",
        {"token": token_of("admin")},
        Host="tieline.example",
        Origin="http://tieline.example",
    )
    assert answer.status == 403
    assert "HTTPS" in answer.json["message"]
    assert visitor.set_cookies == []


def test_guessing_tokens_is_limited_and_does_not_lock_out_who_is_signed_in(
    api_kubeconfig: Path, console_folder: Path, projects: str, token_of: Callable[[str], str]
) -> None:
    with Server(api_kubeconfig, console_folder=console_folder, failed_limit=5) as server:
        good, guessing = Visitor(server.url), Visitor(server.url)
        assert good.sign_in(token_of("admin")).status == 204
        eventually("the role known", lambda: good.api(projects).status == 200)
        statuses = [guessing.sign_in(f"guess-{number}").status for number in range(8)]
        assert statuses == [401] * 5 + [429] * 3
        assert good.api(projects).status == 200
        assert good.session()["signedIn"] is True


def test_switched_off_there_is_no_console_and_no_cookie_counts(
    api_kubeconfig: Path, console_folder: Path, keys_namespace: str, victim: Visitor, projects: str
) -> None:
    settings = {"console_folder": console_folder, "console_keys_namespace": keys_namespace}
    with Server(api_kubeconfig, console=False, **settings) as server:
        same = Visitor(server.url, dict(victim.cookies))
        for path in ("/console", "/console/", "/console/session", "/console/login"):
            assert same("GET", path).status == 404
        assert same.api(projects).status == 401


async def cookies_of(page: Page) -> list[tuple[str, str]]:
    """Names and values of what the browser keeps for a page."""
    found = (await page.call("Network.getCookies"))["cookies"]
    return sorted((one["name"], one["value"]) for one in found)
