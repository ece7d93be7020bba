"""People sign in at a real OpenID Connect issuer, and the API's replicas refresh what they sign in with."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.identity.browser import READY, Browser
from tests.harness.identity.keycloak import Keycloak
from tests.harness.session.waiting import eventually
from tests.integration.console.conftest import Visitor
from tests.integration.console.issuer import AUDIENCE_MAPPER, SignIn, StartApi, console_variables, state_of
from tieline_core.identity.ids import parse_time

pytestmark = pytest.mark.cluster

SHORT = 8
"""Seconds that tokens are good for where a refresh is waited for."""


def deployed(
    keycloak: Keycloak,
    start_api: StartApi,
    keys_namespace: str,
    kubectl: Kubectl,
    org: Organisation,
    folder: Path,
    *,
    replicas: int = 1,
    lifetime: int = 300,
) -> SignIn:
    application = keycloak.register(lifetime=lifetime)
    variables = console_variables(keycloak, application, folder)
    variables["TIELINE_CONSOLE_KEYS_NAMESPACE"] = keys_namespace
    first = start_api(**variables)
    others = [start_api(**variables, TIELINE_PUBLIC_API_URL=first.url) for _ in range(replicas - 1)]
    return SignIn(keycloak, application, (first, *others), kubectl, org)


@pytest.fixture(scope="module")
def issuer(
    keycloak: Keycloak,
    start_api: StartApi,
    keys_namespace: str,
    kubectl: Kubectl,
    org: Organisation,
    tmp_path_factory: pytest.TempPathFactory,
) -> SignIn:
    folder = tmp_path_factory.mktemp("issuer")
    return deployed(keycloak, start_api, keys_namespace, kubectl, org, folder)


@pytest.fixture(scope="module")
def short(
    keycloak: Keycloak,
    start_api: StartApi,
    keys_namespace: str,
    kubectl: Kubectl,
    org: Organisation,
    tmp_path_factory: pytest.TempPathFactory,
) -> SignIn:
    """Two replicas, and tokens that are good for seconds."""
    folder = tmp_path_factory.mktemp("short")
    return deployed(keycloak, start_api, keys_namespace, kubectl, org, folder, replicas=2, lifetime=SHORT)


def test_the_page_learns_who_signs_people_in(issuer: SignIn) -> None:
    assert issuer.visitor().session() == {
        "signedIn": False,
        "methods": [{"type": "oidc", "name": "Keycloak"}, {"type": "token"}],
    }


@pytest.mark.parametrize(
    ("role", "status"), [("tieline-viewer", 403), ("tieline-editor", 200), ("tieline-admin", 200)]
)
def test_one_signs_in_and_may_what_ones_role_allows(issuer: SignIn, role: str, status: int) -> None:
    visitor, person = issuer.visitor(), issuer.person(role)
    answer = issuer.sign_in(visitor, person, "/console/projects%3Fq=a")
    assert (answer.status, answer.headers["Location"]) == (302, "/console/projects?q=a")
    assert set(visitor.cookies) == {"__Host-tieline", "__Host-tieline-seen"}
    eventually("the role known", lambda: visitor.api(issuer.projects).status == 200)
    assert visitor.api(issuer.projects, "POST", {"name": "Made"}).status == status
    found = visitor.session()
    assert found["signedIn"] is True
    assert parse_time(found["expiresAt"]).timestamp() > 0


def test_somebody_without_a_role_is_signed_in_and_sees_nothing(issuer: SignIn) -> None:
    visitor = issuer.visitor()
    assert issuer.sign_in(visitor, issuer.keycloak.person()).status == 302
    assert visitor.session()["signedIn"] is True
    assert visitor.api(issuer.projects).status == 404


def test_the_request_to_the_issuer_uses_pkce_state_and_nonce(issuer: SignIn) -> None:
    visitor = issuer.visitor()
    one, two = (visitor("GET", "/console/login").headers["Location"] for _ in range(2))
    for name in ("state", "nonce", "code_challenge"):
        values = [parse_qs(urlsplit(url).query)[name][0] for url in (one, two)]
        assert all(len(value) >= 43 for value in values)
        assert values[0] != values[1]
    query = parse_qs(urlsplit(one).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["response_type"] == ["code"]
    assert query["redirect_uri"] == [f"{issuer.replicas[0].url}/console/callback"]
    (cookie,) = visitor.set_cookies
    assert {"Path=/", "Secure", "HttpOnly", "SameSite=Lax", "Max-Age=600"} <= set(cookie.split("; "))
    assert state_of(two) not in cookie


def test_nothing_that_signs_in_is_in_the_log(issuer: SignIn) -> None:
    visitor = issuer.visitor()
    path = issuer.sent_back(visitor, issuer.person())
    code, state = (parse_qs(urlsplit(path).query)[name][0] for name in ("code", "state"))
    assert visitor("GET", path).status == 302
    log = issuer.replicas[0].log.read_text()
    assert "consoleCallback" in log
    secrets = [code, state, issuer.application.secret, *visitor.cookies.values()]
    assert [one for one in secrets if one in log] == []
    assert "eyJ" not in log


def test_who_signs_out_is_signed_out_here_and_can_sign_out_there(issuer: SignIn) -> None:
    visitor = issuer.signed_in()
    before = dict(visitor.cookies)
    answer = visitor("DELETE", "/console/session")
    assert answer.status == 200, answer.raw
    url = answer.json["logoutUrl"]
    assert url.startswith(f"{issuer.keycloak.issuer}/protocol/openid-connect/logout?")
    query = parse_qs(urlsplit(url).query)
    assert query == {
        "client_id": [issuer.application.id],
        "post_logout_redirect_uri": [f"{issuer.replicas[0].url}/console/"],
    }
    assert visitor.cookies == {}
    assert visitor.api(issuer.projects).status == 401
    assert before, "there was a session"


def test_tokens_are_refreshed_before_they_end(short: SignIn) -> None:
    visitor = short.signed_in()
    before = visitor.cookies["__Host-tieline"]

    def refreshed() -> bool:
        assert visitor.api(short.projects).status == 200
        return visitor.cookies["__Host-tieline"] != before

    eventually("a new token", refreshed)
    first = visitor.cookies["__Host-tieline"]
    eventually("another one", lambda: refreshed() and visitor.cookies["__Host-tieline"] != first)
    assert short.keycloak.events("REFRESH_TOKEN_ERROR", short.application) == []


def test_many_requests_at_two_replicas_refresh_once(short: SignIn) -> None:
    """Keycloak takes a refresh token once: a second use would be refused, and recorded."""
    visitor = short.signed_in()
    old = dict(visitor.cookies)

    def due() -> bool:
        probe = Visitor(visitor.url, dict(old))
        probe("GET", "/console/session")
        return "__Host-tieline" in {header.partition("=")[0] for header in probe.set_cookies}

    refreshes = len(short.keycloak.events("REFRESH_TOKEN", short.application))
    eventually("a refresh", due)
    late = [Visitor(api.url, dict(old)) for api in short.replicas for _ in range(10)]
    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda one: one.api(short.projects).status, late))
    assert statuses == [200] * len(late)
    assert {one.cookies["__Host-tieline"] != old["__Host-tieline"] for one in late} == {True}
    assert len(short.keycloak.events("REFRESH_TOKEN", short.application)) == refreshes + 1
    assert short.keycloak.events("REFRESH_TOKEN_ERROR", short.application) == []


def test_many_requests_refresh_once_when_the_token_has_ended_meanwhile(short: SignIn) -> None:
    """As after a lid was closed: all tabs ask at once, at any replica."""
    visitor = short.signed_in()
    old = dict(visitor.cookies)
    refreshes = len(short.keycloak.events("REFRESH_TOKEN", short.application))
    until = time.monotonic() + SHORT + 1
    eventually("the token's end", lambda: time.monotonic() > until)
    late = [Visitor(api.url, dict(old)) for api in short.replicas for _ in range(10)]
    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda one: one.api(short.projects).status, late))
    assert statuses == [200] * len(late)
    assert len(short.keycloak.events("REFRESH_TOKEN", short.application)) == refreshes + 1
    assert short.keycloak.events("REFRESH_TOKEN_ERROR", short.application) == []


def test_a_session_that_the_issuer_has_ended_ends_here_with_its_token(short: SignIn) -> None:
    visitor, person = short.visitor(), short.person()
    assert short.sign_in(visitor, person).status == 302
    eventually("the role known", lambda: visitor.api(short.projects).status == 200)
    short.keycloak.end_sessions(person, short.application)
    eventually("signed out", lambda: visitor.api(short.projects).status == 401)
    assert visitor.session()["signedIn"] is False
    assert visitor.cookies == {}


def test_a_stolen_cookie_is_of_no_use_after_the_sign_out(short: SignIn) -> None:
    visitor = short.signed_in()
    thief = Visitor(visitor.url, dict(visitor.cookies))
    assert visitor("DELETE", "/console/session").status == 200
    eventually("the thief is out", lambda: thief.api(short.projects).status == 401)


def test_access_tokens_can_be_used_where_the_issuer_makes_them_for_the_api(
    keycloak: Keycloak, start_api: StartApi, kubectl: Kubectl, org: Organisation, tmp_path: Path
) -> None:
    application = keycloak.register(protocolMappers=[AUDIENCE_MAPPER])
    variables = console_variables(keycloak, application, tmp_path, audience="tieline")
    api = start_api(**variables, TIELINE_CONSOLE_OIDC_TOKEN="access")
    signing = SignIn(keycloak, application, (api,), kubectl, org)
    assert signing.signed_in().session()["signedIn"] is True


def test_a_public_client_needs_no_secret(
    keycloak: Keycloak, start_api: StartApi, kubectl: Kubectl, org: Organisation, tmp_path: Path
) -> None:
    application = keycloak.register(publicClient=True)
    api = start_api(**console_variables(keycloak, application, tmp_path, secret=False))
    assert SignIn(keycloak, application, (api,), kubectl, org).signed_in().session()["signedIn"] is True


def test_an_issuer_that_the_api_does_not_accept_is_said_to_the_person(
    keycloak: Keycloak, start_api: StartApi, kubectl: Kubectl, org: Organisation, tmp_path: Path
) -> None:
    application = keycloak.register()
    api = start_api(**console_variables(keycloak, application, tmp_path, audience="something-else"))
    signing = SignIn(keycloak, application, (api,), kubectl, org)
    visitor = signing.visitor()
    answer = signing.sign_in(visitor, signing.person())
    assert answer.status == 403
    assert "does not accept its tokens" in answer.raw.decode()
    assert visitor.cookies == {}


def test_an_issuer_that_is_away_is_said_to_the_person(start_api: StartApi) -> None:
    api = start_api(
        TIELINE_CONSOLE_OIDC_ISSUER="http://127.0.0.1:9/realms/none",
        TIELINE_CONSOLE_OIDC_CLIENT_ID="tieline",
    )
    answer = Visitor(api.url)("GET", "/console/login")
    assert answer.status == 503
    assert "127.0.0.1:9 cannot be reached" in answer.raw.decode()
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


async def test_in_a_real_browser_one_comes_back_signed_in(issuer: SignIn, browser: Browser) -> None:
    """The cookie is Strict, and one comes from the issuer's page: the page's own requests have it all the same."""
    person = issuer.person()
    page = await browser.open(f"{issuer.replicas[0].url}/console/login?return=/console/projects")
    await page.fill("#username", person.name)
    await page.fill("#password", person.password)
    await page.click("#kc-login, [name=login]")
    await page.until(f"{READY} && document.title === 'Console runs'")
    assert await page.url() == f"{issuer.replicas[0].url}/console/projects"
    call = f"fetch({json.dumps(issuer.projects)}, {{headers: {{'X-Tieline-Console': '1'}}}})"
    await page.until(f"{call}.then((answer) => answer.status === 200)")
    out = await page.evaluate("fetch('/console/session', {method: 'DELETE'}).then((answer) => answer.json())")
    await page.goto(out["logoutUrl"])
    await page.until("location.pathname === '/console/'")
    signed_in = "fetch('/console/session').then((answer) => answer.json()).then((found) => found.signedIn)"
    assert await page.evaluate(signed_in) is False
    await page.goto(f"{issuer.replicas[0].url}/console/login")
    await page.until("!!document.querySelector('#password')")


def test_a_callback_is_good_in_the_browser_that_began_and_once(issuer: SignIn) -> None:
    visitor, thief = issuer.visitor(), issuer.visitor()
    path = issuer.sent_back(visitor, issuer.person())
    assert thief("GET", path).status == 400, "a callback that was stolen, in a browser that has begun nothing"
    assert thief("GET", "/console/login").status == 302
    kept = dict(visitor.cookies)
    refused = thief("GET", path)
    assert refused.status == 400, "in one that has begun another sign-in"
    assert "not begun in this browser" in refused.raw.decode()
    assert thief.cookies == {}
    answer = visitor("GET", path)
    assert (answer.status, answer.headers["Location"]) == (302, "/console/")
    assert visitor("GET", path).status == 400, "a second time"
    replayed = Visitor(visitor.url, kept)
    assert replayed("GET", path).status == 403, (
        "with the cookie of the sign-in, too: the issuer knows its codes"
    )
    assert replayed.cookies == {}


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "/%5Cevil.example",
        "https://evil.example/",
        "/docs",
        "/console/..%2Fdocs",
        "/console/%0D%0ASet-Cookie:%20a=b",
        "/console/%250D%250ASet-Cookie:%2520a=b",
        "/console/%E2%80%AE",
        "javascript:alert(1)//console/",
    ],
)
def test_signing_in_leads_back_to_the_console_alone(issuer: SignIn, path: str) -> None:
    answer = issuer.sign_in(issuer.visitor(), issuer.person(), path)
    assert (answer.status, answer.headers["Location"]) == (302, "/console/")


def test_the_host_that_a_request_names_does_not_decide_where_the_issuer_sends_people(issuer: SignIn) -> None:
    visitor = issuer.visitor()
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    location = visitor.send("GET", "/console/login", None, headers).headers["Location"]
    query = parse_qs(urlsplit(location).query)
    assert query["redirect_uri"] == [f"{issuer.replicas[0].url}/console/callback"]
    assert "evil.example" not in location


@pytest.mark.parametrize(
    "query", ["", "?code=x", "?state=x", "?error=access_denied", "?code=x&state=%F0%9F%98%80"]
)
def test_a_made_up_callback_is_refused_with_a_page(issuer: SignIn, query: str) -> None:
    visitor = issuer.visitor()
    assert visitor("GET", "/console/login").status == 302
    answer = visitor("GET", f"/console/callback{query}")
    assert answer.status == 400
    assert "<script" not in answer.raw.decode()
    assert "access_denied" not in answer.raw.decode()
    assert visitor.cookies == {}


def test_who_declines_at_the_issuer_reads_so(issuer: SignIn) -> None:
    visitor = issuer.visitor()
    state = state_of(visitor("GET", "/console/login").headers["Location"])
    answer = visitor("GET", f"/console/callback?state={state}&error=%3Cscript%3E&error_description=%3Cb%3E")
    assert answer.status == 403
    text = answer.raw.decode()
    assert "Keycloak has not signed you in" in text
    assert "script" not in text
    assert "<b>" not in text
