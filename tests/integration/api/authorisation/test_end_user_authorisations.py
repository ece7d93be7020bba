"""Authorisations that end users begin with their own tokens: theirs alone, and tied to their browser."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import ORIGIN, PUBLIC_URL, Answer, Client, Server, of_engine
from tests.integration.api.engine_objects import make_streams
from tests.integration.api.oauth_provider import CLIENT_ID, Provider
from tests.integration.api.objects import make_project, make_system, make_template
from tieline_core.identity.ids import new_id
from tieline_protocol.egress import Egress

pytestmark = pytest.mark.cluster

APP = "https://customer.example"


@pytest.fixture(scope="module")
def login() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def recording(
    api_kubeconfig: Path, engine: NatsServer, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A replica that may reach this machine, and stores audit records."""
    make_streams(engine, client.organisation, new_id())
    egress = Egress.parse(allowed=["127.0.0.0/8"])
    settings = of_engine(engine, tmp_path_factory.mktemp("runs"))
    with Server(api_kubeconfig, egress=egress, **settings) as started:
        yield started


@pytest.fixture
def first(recording: Server, client: Client) -> Client:
    """The administrator there."""
    return replace(client, url=recording.url)


@dataclass(frozen=True)
class User:
    """A user with a session, at an environment with one system."""

    client: Client
    session: str
    system: str
    template: str
    scheme: dict[str, Any]
    login: Provider

    def begin(self, credential: str) -> tuple[str, str]:
        """Where the user is sent, and the state."""
        body = {
            "credential": {"id": credential, "organisationId": self.client.organisation},
            "authorizeUrl": f"{self.login.url}/authorize",
            "clientId": CLIENT_ID,
        }
        url = self.client.ok("POST", f"/systems/{self.system}/oauth2/initialise", body)["url"]
        return url, dict(part.split("=", 1) for part in urlsplit(url).query.split("&"))["state"]

    def connect(self, returned: dict[str, str], credential_id: str) -> Answer:
        """Stores what the user came back with, in a new connection with the credential that it is for."""
        credential = {
            "authSchemeConfig": self.scheme,
            "credential": {"id": credential_id, "type": "oauth2-code", "data": {"oauth2Code": returned}},
        }
        connection = {"name": f"Login {new_id()}", "credentials": [credential]}
        body = {"connectionTemplateId": self.template, "connection": connection}
        return self.client("POST", "/connections", body)

    def start(self, state: str, *, origin: str = PUBLIC_URL, form: bool = False) -> Answer:
        """The first hop, as a page of this origin asks for it."""
        fields = {"token": self.client.token or "", "state": state}
        raw = urlencode(fields).encode() if form else json.dumps(fields).encode()
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        return posted(self.client.url, "/oauth2/start", raw, {"Content-Type": kind, "Origin": origin})

    def finish(self, returned: dict[str, str], cookie: str = "") -> Answer:
        """What the callback page asks for by itself."""
        headers = {"Content-Type": "application/json", **({"Cookie": cookie} if cookie else {})}
        return posted(self.client.url, "/oauth2/callback", json.dumps(returned).encode(), headers)


def posted(url: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
    """The answer to a POST; redirects are not followed."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.request("POST", path, body=body, headers=headers)
    response = connection.getresponse()
    return Answer(response.status, dict(response.headers), response.read())


def cookie_of(answer: Answer) -> str:
    """What a browser sends back of a Set-Cookie."""
    return answer.headers["Set-Cookie"].partition(";")[0]


@pytest.fixture
def users(first: Client, login: Provider) -> tuple[User, User]:
    """Ann and Bob, who may connect the same system."""
    scheme = login.scheme()
    system = make_system(first, [scheme])["id"]
    project = make_project(first)
    _, template = make_template(first, project=project, system=system, dynamic=True)
    scheme["oauth2"]["grant"]["authorizationCode"].pop("clientSecret")

    def begun(name: str) -> User:
        body = {
            "user": {"externalId": f"{name}-{new_id()}"},
            "environmentId": project["environments"][0]["id"],
            "allowedOrigins": [APP],
        }
        made = first.ok("POST", "/connect-sessions", body, status=201)
        client = replace(first, token=made["token"])
        return User(client, made["id"], system, template["connectionTemplateId"], scheme, login)

    return begun("ann"), begun("bob")


def _connected(user: User) -> str:
    """The id of the credential of a new connection."""
    url, _ = user.begin(credential := new_id())
    made = user.connect(user.login.agree(url), credential)
    assert made.status == 201, made.raw
    return str(made.json["credentials"][0]["credential"]["id"])


def test_a_user_connects_with_what_they_came_back_with(users: tuple[User, User]) -> None:
    ann, _ = users
    _connected(ann)
    (shown,) = ann.client.ok("GET", "/connections")["items"]
    assert shown["credentials"][0]["credential"]["type"] == "oauth2-token"


def test_what_one_user_began_no_other_can_use(users: tuple[User, User], first: Client) -> None:
    ann, bob = users
    returned = ann.login.agree(ann.begin(credential := new_id())[0])
    for other in (bob, replace(ann, client=first)):
        refused = other.connect(returned, credential)
        assert (refused.status, refused.fields) == (
            422,
            ["connection.credentials[0].credential.data.oauth2Code.state"],
        )
    assert ann.connect(returned, credential).status == 201, "it stayed good"


def test_what_an_administrator_began_no_user_can_use(users: tuple[User, User], first: Client) -> None:
    ann, _ = users
    returned = ann.login.agree(replace(ann, client=first).begin(credential := new_id())[0])
    refused = ann.connect(returned, credential)
    assert refused.fields == ["connection.credentials[0].credential.data.oauth2Code.state"]


def test_the_callback_page_finishes_it_in_the_browser_that_took_it_up(users: tuple[User, User]) -> None:
    ann, _ = users
    url, state = ann.begin(_connected(ann))
    started = ann.start(state)
    assert (started.status, started.json) == (200, {"url": url})
    attributes = {part.strip().lower() for part in started.headers["Set-Cookie"].split(";")[1:]}
    assert {"secure", "httponly", "path=/", "samesite=strict"} <= attributes
    assert cookie_of(started).startswith("__Host-")
    returned = ann.login.agree(url)
    for cookie in ("", cookie_of(started).partition("=")[0] + "=guessed"):
        refused = ann.finish(returned, cookie)
        assert refused.status == 422
        assert "another browser" in refused.json["message"]
    finished = ann.finish(returned, cookie_of(started))
    assert (finished.status, finished.json["system"][:4]) == (200, "Shop")


def test_pages_leave_records_on_the_users_behalf(users: tuple[User, User], first: Client) -> None:
    ann, _ = users
    url, state = ann.begin(_connected(ann))
    assert ann.start(state, origin="https://evil.example", form=True).status == 403
    cookie = cookie_of(ann.start(state))
    returned = ann.login.agree(url)
    assert ann.finish(returned).status == 422
    assert ann.finish(returned, cookie).status == 200

    def found() -> list[dict[str, Any]]:
        records = first.ok("GET", "/audit?log=access&first=200")["items"]
        return [
            one for one in records if one["session"] == ann.session and one["operation"].startswith("oauth2")
        ]

    finished, guessed, started = eventually("the last", lambda: len(found()) == 3 and found())
    assert (started["operation"], started["outcome"], started["caller"]) == (
        "oauth2Start",
        "allowed",
        "endUser",
    )
    assert (guessed["operation"], guessed["outcome"], guessed["status"], guessed["caller"]) == (
        "oauth2CallbackFinish", "refused", 422, "",
    )  # fmt: skip
    assert (finished["outcome"], finished["caller"], finished["via"]) == ("allowed", "endUser", "page")
    assert {one["subject"] for one in (finished, guessed, started)} == {started["subject"]}
    assert started["subject"]
    assert finished["object"] == started["object"] != ""
    assert [one["object"] for one in finished["changes"]] == [finished["object"]]
    kept = json.dumps(first.ok("GET", "/audit?log=access&first=200"))
    for secret in (state, returned["code"], cookie.partition("=")[2], ann.client.token or ""):
        assert secret not in kept


def test_an_authorisation_that_was_not_taken_up_is_finished_by_no_callback_page(
    users: tuple[User, User],
) -> None:
    ann, _ = users
    url, _ = ann.begin(_connected(ann))
    assert ann.finish(ann.login.agree(url)).status == 422


def test_a_page_of_the_application_leads_there_by_a_form(users: tuple[User, User]) -> None:
    ann, _ = users
    url, state = ann.begin(_connected(ann))
    started = ann.start(state, origin=APP, form=True)
    assert (started.status, started.headers["Location"]) == (303, url)
    assert ann.finish(ann.login.agree(url), cookie_of(started)).status == 200


def test_it_is_taken_up_once_from_an_origin_of_the_session_with_the_users_own_token(
    users: tuple[User, User], first: Client
) -> None:
    ann, bob = users
    _, state = ann.begin(_connected(ann))
    assert ann.start(state, origin="https://evil.example", form=True).status == 403
    assert ann.start(state, origin=ORIGIN, form=True).status == 403, "of TIELINE_CORS_ORIGINS"
    assert ann.start(state, origin=APP).status == 403, "a script of another origin keeps no cookie"
    assert ann.start(state, origin="").status == 403
    assert bob.start(state).status == 422
    assert replace(ann, client=first).start(state).status == 403
    assert replace(ann, client=replace(first, token="tcs_nothing")).start(state).status == 401
    assert ann.start(state).status == 200
    again = ann.start(state)
    assert (again.status, again.fields) == (422, ["state"])


def test_a_revoked_session_finishes_nothing(users: tuple[User, User], first: Client) -> None:
    ann, _ = users
    url, state = ann.begin(_connected(ann))
    cookie = cookie_of(ann.start(state))
    first.ok("DELETE", f"/connect-sessions/{ann.session}", status=204)
    refused = ann.finish(ann.login.agree(url), cookie)
    assert refused.status == 422
    assert "session" in refused.json["message"]


def test_a_page_that_opened_the_window_learns_the_result_where_the_session_allows_its_origin(
    users: tuple[User, User],
) -> None:
    ann, _ = users
    _, state = ann.begin(new_id())

    def asked(origin: str) -> int:
        body = json.dumps({"origin": origin, "state": state}).encode()
        headers = {"Content-Type": "application/json"}
        return posted(ann.client.url, "/oauth2/callback/opener", body, headers).status

    assert [asked(one) for one in (APP, PUBLIC_URL, ORIGIN, "https://evil.example")] == [204, 204, 403, 403]
