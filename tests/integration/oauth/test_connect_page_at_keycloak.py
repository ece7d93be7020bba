"""The connect page between three sites: a product's page, Tieline, and a real Keycloak; and what attackers try there.

The product is at ``localhost``, Tieline at ``127.0.0.1`` and Keycloak at ``login.localhost``: three sites to the
browser, which blocks cookies of third parties.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page, expect

from tests.harness.clients.secret_leaks import leaks
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.console.chromium import WHOLE_PROGRAM, chromium, open_context
from tests.harness.console.watching import watch
from tests.harness.identity.keycloak import Application, Keycloak, Person
from tests.harness.processes.running_api import RunningApi
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.connect.product import built_example, page_with, product
from tests.integration.api.objects import make_project, make_system, make_template, stored
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import tokens_name

pytestmark = pytest.mark.cluster

LOUD = {"TIELINE_EGRESS_ALLOWED": "127.0.0.0/8", "TIELINE_LOG_LEVEL": "DEBUG"}
DOMAIN = "shop.example"


@dataclass
class Stage:
    """A project whose users sign in at Keycloak, and the API that they do it at."""

    api: RunningApi
    admin: Client
    kubectl: Kubectl
    org: Organisation
    keycloak: Keycloak
    application: Application
    environment: str
    system: str
    users: list[str] = field(default_factory=list)

    def begin(self, *origins: str) -> dict[str, Any]:
        """A session of a new user."""
        user = f"ann-{new_id()}"
        self.users.append(user)
        body = {
            "user": {"externalId": user, "displayName": "Ann"},
            "environmentId": self.environment,
            "allowedOrigins": list(origins),
        }
        made: dict[str, Any] = self.admin.ok("POST", "/connect-sessions", body, status=201)
        return {**made, "user": user}

    @property
    def page(self) -> str:
        """What the widget is given as ``page``."""
        return f"{self.api.url}/connect"

    def tokens(self, user: str) -> dict[str, str]:
        """What is stored for a user's only connection; nothing where it is not authorised."""
        (connection,) = self.admin.ok("GET", f"/connections?end_user_id={user}")["items"]
        if connection["credentials"][0]["credential"]["type"] != "oauth2-token":
            return {}
        identifier = connection["id"]
        item = stored(self.kubectl, self.org, "connection", identifier)["spec"]["credentials"][0]["id"]
        secret = stored(self.kubectl, self.org, "secret", tokens_name(identifier.lower(), item))
        return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}

    def posted(self, path: str, body: dict[str, str]) -> Answer:
        """The answer to what a script posts as if it were a page of Tieline."""
        connection = http.client.HTTPConnection(urlsplit(self.api.url).netloc, timeout=30)
        headers = {"Content-Type": "application/json", "Origin": self.api.url}
        connection.request("POST", path, body=json.dumps(body), headers=headers)
        response = connection.getresponse()
        return Answer(response.status, dict(response.headers), response.read())


@pytest.fixture(scope="module")
def loud_api(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApi]:
    """An API that logs all it can."""
    log = tmp_path_factory.mktemp("connect-api") / "log"
    with RunningApi(kubeconfig=api_kubeconfig, log=log, variables=LOUD) as running:
        yield running


@pytest.fixture(scope="module")
def stage(
    loud_api: RunningApi,
    kubectl: Kubectl,
    oauth_org: Organisation,
    keycloak: Keycloak,
    token_for: Callable[..., str],
) -> Stage:
    admin = Client(loud_api.url, token_for(oauth_org.namespace, "admin", "tieline-admin"), oauth_org.id)
    admin.until_known()
    application = keycloak.register(consentRequired=True)
    client = {"clientId": application.id, "clientSecret": application.secret}
    oauth2 = {
        "id": "keycloak",
        "tokenUrl": keycloak.token_url,
        "authorizeUrl": keycloak.authorize_url.replace("127.0.0.1", "login.localhost"),
        "grant": {"type": "authorizationCode", "authorizationCode": client},
        "pkce": True,
        "defaultScopes": ["openid"],
    }
    project = make_project(admin)
    system = make_system(admin, [{"type": "oauth2", "oauth2": oauth2}])
    make_template(admin, project=project, system=system["id"], dynamic=True)
    environment = project["environments"][0]["id"]
    return Stage(loud_api, admin, kubectl, oauth_org, keycloak, application, environment, str(system["name"]))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium("--test-third-party-cookie-phaseout", program=WHOLE_PROGRAM) as running:
        yield running


@pytest.fixture
def new_user(browser: Browser) -> Iterator[Callable[[], BrowserContext]]:
    """Makes browsers of new users. What they refuse or throw fails the test."""
    complaints: list[str] = []
    made: list[BrowserContext] = []

    def make() -> BrowserContext:
        context = open_context(browser, locale="en-GB")
        watch(context, complaints)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()
    assert complaints == []


@pytest.fixture
def context(new_user: Callable[[], BrowserContext]) -> BrowserContext:
    return new_user()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture(scope="module")
def example() -> Path:
    return built_example()


@dataclass
class Embedded:
    """The example's page, and the sessions that its server has begun."""

    url: str
    sessions: list[dict[str, Any]]

    @property
    def session(self) -> dict[str, Any]:
        return self.sessions[-1]


@pytest.fixture
def embedded(stage: Stage, example: Path) -> Iterator[Embedded]:
    origins: list[str] = []
    sessions: list[dict[str, Any]] = []

    def begin() -> dict[str, str]:
        sessions.append(stage.begin(*origins))
        return {"token": sessions[-1]["token"], "page": stage.page}

    with product(example, begin) as url:
        origins.append(url)
        yield Embedded(url, sessions)


def shown(page: Page, embedded: Embedded) -> FrameLocator:
    """The connect page in a frame of the product's."""
    page.goto(embedded.url)
    page.get_by_role("button", name="Connect accounts").click()
    return page.frame_locator("iframe")


def at_keycloak(page: Page, stage: Stage, there: Page | FrameLocator) -> Page:
    """The window in which the user is asked to sign in."""
    there.get_by_role("button", name=f"Connect {stage.system}").click()
    with page.expect_popup() as opened:
        there.get_by_role("button", name=f"Continue to {stage.system}").click()
    window = opened.value
    expect(window.locator("#username")).to_be_visible()
    assert urlsplit(window.url).hostname == "login.localhost"
    return window


def sign_in(window: Page, person: Person) -> None:
    """Up to the question whether the user allows access."""
    window.fill("#username", person.name)
    window.fill("#password", person.password)
    window.click("#kc-login, [name=login]")
    expect(window.locator("[name=accept]")).to_be_visible()


def allow(window: Page) -> None:
    """Allows access; the window closes itself."""
    with window.expect_event("close"):
        window.click("[name=accept]")


def claims(token: str) -> dict[str, Any]:
    """What a JWT says."""
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def refused(window: Page) -> None:
    """The callback page has refused what came back."""
    expect(window.locator("#card[data-outcome=failed]")).to_be_visible()


def test_a_user_connects_in_a_frame_while_cookies_of_third_parties_are_blocked(
    stage: Stage, embedded: Embedded, page: Page
) -> None:
    person = stage.keycloak.person()
    frame = shown(page, embedded)
    window = at_keycloak(page, stage, frame)
    assert page.frames[-1].evaluate("document.hasStorageAccess()") is False
    sign_in(window, person)
    allow(window)
    expect(frame.get_by_text("Connected", exact=True)).to_be_visible()
    expect(page.get_by_role("list", name="Events")).to_contain_text("connected")
    frame.get_by_role("button", name="Done").click()
    expect(page.get_by_role("status")).to_have_text("done")
    tokens = stage.tokens(embedded.session["user"])
    assert claims(tokens["accessToken"])["sub"] == person.id


def test_nothing_secret_is_in_a_log_a_referrer_or_a_url(
    stage: Stage, embedded: Embedded, page: Page, context: BrowserContext
) -> None:
    sent: list[str] = []
    context.on(
        "request",
        lambda one: sent.append(
            f"{one.url.partition('#')[0]} {one.headers.get('referer', '')} {one.headers.get('origin', '')}"
        ),
    )
    window = at_keycloak(page, stage, shown(page, embedded))
    sign_in(window, stage.keycloak.person())
    allow(window)
    expect(page.frame_locator("iframe").get_by_text("Connected", exact=True)).to_be_visible()
    tokens = stage.tokens(embedded.session["user"])
    codes = [parse_qs(urlsplit(one.split()[0]).query).get("code", [""])[0] for one in sent]
    code = next(one for one in codes if one)
    secrets = {
        "session": embedded.session["token"][-43:],
        "access token": tokens["accessToken"],
        "refresh token": tokens["refreshToken"],
        "client secret": stage.application.secret,
    }
    log = stage.api.log.read_text()
    assert embedded.session["id"] in log, "the log has the session's id, or this test would look at nothing"
    assert leaks({**secrets, "code": code}, {"log": log}) == []
    assert leaks(secrets, {f"request {number}": one for number, one in enumerate(sent)}) == []
    referrers = [urlsplit(one.split(" ")[1]) for one in sent]
    assert not [one for one in referrers if one.query and one.hostname != "login.localhost"]


def requests_of(context: BrowserContext) -> list[str]:
    """The URLs that a browser asks for from now on."""
    asked: list[str] = []
    context.on("request", lambda one: asked.append(one.url))
    return asked


def with_parameter(asked: list[str], path: str, name: str) -> str:
    """The first of these URLs with this path that has a parameter of this name."""
    return next(
        one for one in asked if urlsplit(one).path.endswith(path) and name in parse_qs(urlsplit(one).query)
    )


def test_who_signs_in_where_an_attacker_has_begun_gives_nothing_away(
    stage: Stage, new_user: Callable[[], BrowserContext]
) -> None:
    """Session fixation: the attacker begins in a session of their own, and sends the provider's URL to the victim."""
    session = stage.begin()
    attacker = new_user()
    asked = requests_of(attacker)
    page = attacker.new_page()
    page.goto(session["url"])
    at_keycloak(page, stage, page)
    victim = new_user().new_page()
    victim.goto(with_parameter(asked, "/auth", "state"))
    sign_in(victim, stage.keycloak.person())
    victim.click("[name=accept]")
    refused(victim)
    assert stage.tokens(session["user"]) == {}


def test_an_attackers_account_is_not_put_into_a_victims_session(
    stage: Stage, new_user: Callable[[], BrowserContext]
) -> None:
    """The attacker signs in, and sends what came back to a victim who is signing in, with either one's state."""
    theirs, session = stage.begin(), stage.begin()
    attacker, victim = new_user(), new_user()
    asked = requests_of(attacker)
    page = attacker.new_page()
    page.goto(theirs["url"])
    at_keycloak(page, stage, page)
    back = stage.keycloak.log_in(
        with_parameter(asked, "/auth", "state").replace("login.localhost", "127.0.0.1"),
        stage.keycloak.person(),
    )
    expected = requests_of(victim)
    own = victim.new_page()
    own.goto(session["url"])
    at_keycloak(own, stage, own)
    states = [
        parse_qs(urlsplit(one).query)["state"][0]
        for one in (back, with_parameter(expected, "/auth", "state"))
    ]
    for url in (back, back.replace(states[0], states[1])):
        lured = victim.new_page()
        lured.goto(url)
        refused(lured)
    assert stage.tokens(session["user"]) == {}
    assert stage.tokens(theirs["user"]) == {}


def test_what_was_used_once_is_good_for_nothing(
    stage: Stage, page: Page, context: BrowserContext, new_user: Callable[[], BrowserContext]
) -> None:
    """The state, the code, and the session after its end, in the same browser and in another one."""
    session = stage.begin()
    asked = requests_of(context)
    page.goto(session["url"])
    window = at_keycloak(page, stage, page)
    sign_in(window, stage.keycloak.person())
    allow(window)
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    before = stage.tokens(session["user"])
    callback = with_parameter(asked, "/oauth2/callback", "code")
    state = parse_qs(urlsplit(callback).query)["state"][0]
    for browser in (context, new_user()):
        again = browser.new_page()
        again.goto(callback)
        refused(again)
        again.close()
    started = stage.posted("/oauth2/start", {"token": session["token"], "state": state})
    assert (started.status, started.fields) == (422, ["state"])
    assert stage.tokens(session["user"]) == before

    stage.admin.ok("DELETE", f"/connect-sessions/{session['id']}", status=204)
    assert stage.posted("/oauth2/start", {"token": session["token"], "state": state}).status == 401
    late = new_user().new_page()
    late.goto(session["url"])
    expect(late.get_by_role("main")).to_contain_text("This link has expired")
    page.get_by_role("button", name=f"Disconnect: {stage.system}").click()
    page.get_by_role("button", name="Disconnect", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("This link has expired")
    assert stage.tokens(session["user"]) == before


def test_a_session_that_is_revoked_while_its_user_signs_in_connects_nothing(
    stage: Stage, embedded: Embedded, page: Page
) -> None:
    frame = shown(page, embedded)
    window = at_keycloak(page, stage, frame)
    sign_in(window, stage.keycloak.person())
    stage.admin.ok("DELETE", f"/connect-sessions/{embedded.session['id']}", status=204)
    window.click("[name=accept]")
    refused(window)
    expect(page.get_by_role("status")).to_have_text("ended")
    expect(page.get_by_role("list", name="Events")).not_to_contain_text("connected")
    assert stage.tokens(embedded.session["user"]) == {}


SPEAKER = """<script>
  const say = (there, type) => there.postMessage({source: "tieline-connect", type}, "*");
  window.heard = [];
  addEventListener("message", ({ data }) => window.heard.push(data));
  setInterval(() => {
    for (const type of ["connected", "activated", "done", "ended"]) say(parent, type);
    for (let number = 0; number < parent.length; number += 1) {
      if (parent[number] !== window) say(parent[number], "hello");
    }
  }, 50);
</script>"""


def test_a_frame_of_another_origin_beside_the_page_says_and_hears_nothing(
    stage: Stage, embedded: Embedded, page: Page
) -> None:
    frame = shown(page, embedded)
    expect(frame.get_by_role("button", name=f"Connect {stage.system}")).to_be_visible()
    with page_with(SPEAKER) as evil:
        page.evaluate(
            """(url) => {
                window.said = 0;
                addEventListener("message", ({ origin }) => { window.said += origin === new URL(url).origin; });
                const frame = document.createElement("iframe");
                frame.name = "evil";
                frame.src = url;
                document.body.append(frame);
            }""",
            evil,
        )
        expect(page.get_by_role("listitem")).to_have_text(["ready"])
        page.evaluate("window.said = 0")
        page.wait_for_function("window.said > 8")
        expect(page.get_by_role("status")).to_have_text("")
        assert page.get_by_role("listitem").all_text_contents() == ["ready"]
        (speaker,) = [one for one in page.frames if one.name == "evil"]
        assert speaker.evaluate("window.heard") == []


@pytest.mark.parametrize(
    "path", ["session", "/connect/authorise", "/oauth2/callback?error=access_denied&state=x"]
)
def test_nothing_that_a_user_clicks_on_is_shown_in_a_frame_of_another_origin(
    stage: Stage, new_user: Callable[[], BrowserContext], browser: Browser, path: str
) -> None:
    """Clickjacking: the page of a session, the window of an authorisation, and the callback page."""
    url = stage.begin("https://app.example")["url"] if path == "session" else f"{stage.api.url}{path}"
    with page_with(f'<iframe src="{url}"></iframe>') as evil:
        page = open_context(browser).new_page()
        with page.expect_console_message(lambda message: "frame-ancestors" in message.text):
            page.goto(evil)
        (frame,) = page.main_frame.child_frames
        assert not frame.url.startswith("http")
        page.close()


def test_a_product_in_a_frame_of_another_origin_shows_the_page_to_nobody(
    stage: Stage, embedded: Embedded, browser: Browser
) -> None:
    """Clickjacking through the product: each page around the frame must be one of the session's origins."""
    with page_with(f'<iframe src="{embedded.url}"></iframe>') as other:
        evil = other.replace("localhost", "evil.localhost")
        page = open_context(browser).new_page()
        page.goto(evil)
        with page.expect_console_message(lambda message: "frame-ancestors" in message.text):
            page.frame_locator("iframe").get_by_role("button", name="Connect accounts").click()
        assert not [one for one in page.frames if one.url.startswith(stage.page)]
        page.close()
