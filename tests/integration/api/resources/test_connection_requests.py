"""Requests through connections by REST: tests, and the proxy. The other side is a server of the tests' own."""

import base64
import hashlib
import hmac
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.local_servers import serving
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.oauth_provider import Provider
from tests.integration.api.objects import connect, make_template
from tests.integration.api.pods import Pod
from tests.integration.api.test_command_line import Command

pytestmark = pytest.mark.cluster

KEY = "k3y-of-the-shop"


@dataclass
class Shop:
    """Answers what it is asked for, and remembers how it was asked."""

    url: str = ""
    seen: list[dict[str, Any]] = field(default_factory=list)
    rejected: set[str] = field(default_factory=set)
    """Values of Authorization that are answered with 401."""

    @property
    def last(self) -> dict[str, Any]:
        return self.seen[-1]

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(
            {
                "method": request.method,
                "target": request.raw_path,
                "headers": {name.lower(): value for name, value in request.headers.items()},
                "body": body,
            }
        )
        if request.headers.get("Authorization") in self.rejected:
            return web.Response(status=401)
        match request.path.split("/")[1:]:
            case ["status", status]:
                return web.Response(status=int(status), text="so it is")
            case ["page"]:
                return web.Response(text="<script>alert(1)</script>", headers=HOSTILE)
            case ["away"]:
                return web.Response(status=302, headers={"Location": "https://elsewhere.example/"})
            case ["moved"]:
                return web.Response(status=307, headers={"Location": "/status/200"})
            case ["echo"]:
                return web.json_response(self.last["headers"], headers={"X-Seen": str(request.headers)})
            case ["large"]:
                return web.Response(body=b"x" * (5 << 20))
            case ["binary"]:
                return web.Response(body=bytes(range(256)), content_type="image/png")
            case ["json"]:
                return web.json_response({"orders": [1]}, status=201, headers={"X-RateLimit-Remaining": "7"})
        return web.Response(text="done")


HOSTILE = {
    "Content-Type": "text/html",
    "Set-Cookie": "__Host-tieline=stolen",
    "Clear-Site-Data": '"*"',
    "Content-Security-Policy": "default-src *",
    "Content-Disposition": "inline",
    "Access-Control-Allow-Origin": "*",
    "Service-Worker-Allowed": "/",
    "X-Accel-Redirect": "/etc/passwd",
    "WWW-Authenticate": "Basic",
    "Refresh": "0; url=https://elsewhere.example",
    "X-Tieline-Revision": "1",
    "Connection": "X-Hop",
    "X-Hop": "1",
    "X-Kept": "1",
}


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    with serving(made.app()) as made.url:
        yield made


@pytest.fixture
def connection(first: Client, shop: Shop) -> dict[str, Any]:
    _, template = make_template(first)
    return connect(first, template, KEY, baseUrl=f"{shop.url}/v1?version=2")


@pytest.fixture
def plain(first: Client, shop: Shop) -> dict[str, Any]:
    """A connection whose paths are those of the shop."""
    _, template = make_template(first)
    return connect(first, template, KEY, baseUrl=shop.url)


def of_scheme(
    client: Client, shop: Shop, scheme: dict[str, Any], kind: str, data: dict[str, Any]
) -> dict[str, Any]:
    _, template = make_template(client, schemes=[scheme])
    credential = {
        "id": "one",
        "authSchemeConfig": scheme,
        "credential": {"type": kind, "data": data},
    }
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "C", "credentials": [credential], "baseUrl": shop.url},
    }
    made: dict[str, Any] = client.ok("POST", "/connections", body, status=201)
    return made


def outcome(client: Client, connection: dict[str, Any], **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.ok("POST", f"/connections/{connection['id']}/test", body or None)
    return found


def through(
    client: Client, connection: dict[str, Any], path: str, method: str = "GET", **more: Any
) -> Answer:
    return client(method, f"/connections/{connection['id']}/proxy/{path}", **more)


# --- tests -------------------------------------------------------------------------------------------


def test_a_connection_that_works_says_so(first: Client, connection: dict[str, Any], shop: Shop) -> None:
    assert outcome(first, connection) == {
        "ok": True,
        "status": 200,
        "message": "The system answered 200: it was reached, and did not refuse the credentials",
    }
    assert (shop.last["method"], shop.last["target"]) == ("GET", "/v1?version=2")
    assert shop.last["headers"]["x-api-key"] == KEY


def test_a_test_has_the_method_and_the_path_that_it_is_given(
    first: Client, connection: dict[str, Any], shop: Shop
) -> None:
    assert outcome(first, connection, method="head", path="/me?full=1")["ok"]
    assert (shop.last["method"], shop.last["target"]) == ("HEAD", "/v1/me?version=2&full=1")


@pytest.mark.parametrize(
    ("status", "ok", "says"),
    [
        (204, True, "did not refuse"),
        (401, False, "refuses the credentials"),
        (403, False, "refuses the credentials"),
        (404, True, "does not serve this request"),
        (405, True, "does not serve this request"),
        (429, True, "fewer requests"),
        (500, False, "error of its own"),
        (503, False, "error of its own"),
    ],
)
def test_what_the_other_side_answers_becomes_a_sentence(
    first: Client, plain: dict[str, Any], status: int, ok: bool, says: str
) -> None:
    found = outcome(first, plain, path=f"/status/{status}")
    assert (found["ok"], found["status"]) == (ok, status)
    assert says in found["message"]


def test_a_system_that_is_not_there_is_no_error_of_the_api(first: Client, shop: Shop) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        _, template = make_template(first)
        found = outcome(first, connect(first, template, KEY, baseUrl=url))
    assert found["ok"] is False
    assert "status" not in found
    assert "cannot be reached" in found["message"]


def test_an_address_that_is_not_public_is_refused_by_an_api_that_may_reach_public_ones_only(
    client: Client, shop: Shop
) -> None:
    _, template = make_template(client)
    made = connect(client, template, KEY, baseUrl=shop.url)
    found = outcome(client, made)
    assert found["ok"] is False
    assert "not a public address" in found["message"]
    answer = through(client, made, "json")
    assert (answer.status, answer.json["code"]) == (502, "system_unreachable")
    assert shop.seen == []


def test_a_base_url_with_a_placeholder_is_named(first: Client) -> None:
    _, template = make_template(first)
    made = connect(first, template, KEY, baseUrl="https://{shop}.example")
    assert "placeholder" in outcome(first, made)["message"]
    answer = through(first, made, "json")
    assert (answer.status, answer.json["code"]) == (409, "connection_unusable")


def test_redirects_of_a_test_stay_at_the_system(first: Client, plain: dict[str, Any], shop: Shop) -> None:
    assert outcome(first, plain, path="/moved")["status"] == 200
    found = outcome(first, plain, path="/away")
    assert found["ok"] is False
    assert "https://elsewhere.example" in found["message"]


@pytest.mark.parametrize("method", ["POST", "DELETE", "TRACE"])
def test_a_test_changes_nothing(first: Client, plain: dict[str, Any], shop: Shop, method: str) -> None:
    answer = first("POST", f"/connections/{plain['id']}/test", {"method": method})
    assert (answer.status, answer.fields) == (422, ["method"])
    assert shop.seen == []


HOSTILE_PATHS = [
    "//elsewhere.example/orders",
    "https://elsewhere.example/orders",
    "/../admin",
    "/orders/..",
    "/%2e%2e/admin",
    "/orders/%2E./admin",
    "/..%2fadmin",
    "/a%5c..%5cadmin",
    "/a%0d%0aX-Injected:1",
    "/a%00",
    "/100%",
]


@pytest.mark.parametrize("path", [*HOSTILE_PATHS, "/a\r\nX-Injected: 1", "/a\\..\\b", "/a#b"])
def test_a_path_that_could_lead_elsewhere_is_refused(
    first: Client, plain: dict[str, Any], shop: Shop, path: str
) -> None:
    answer = first("POST", f"/connections/{plain['id']}/test", {"path": path})
    assert (answer.status, answer.fields) == (422, ["path"])
    assert shop.seen == []


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_so_is_one_of_the_proxy(first: Client, plain: dict[str, Any], shop: Shop, path: str) -> None:
    target = f"/api/v2/o/{first.organisation}/connections/{plain['id']}/proxy/{path.removeprefix('/')}"
    if path.startswith("//"):
        target = target.replace("/proxy/", "/proxy//")
    assert _sent_as_it_is(first, target).startswith(b"HTTP/1.1 422 ")
    assert shop.seen == []


def _sent_as_it_is(client: Client, target: str, *, headers: str = "") -> bytes:
    """The beginning of the answer to a request whose target nobody tidies."""
    url = urlsplit(client.url)
    assert url.hostname
    assert url.port
    with socket.create_connection((url.hostname, url.port), timeout=30) as connected:
        lines = f"GET {target} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {client.token}\r\n{headers}"
        connected.sendall(f"{lines}Connection: close\r\n\r\n".encode())
        return connected.recv(4096)


# --- the proxy ---------------------------------------------------------------------------------------


def test_the_proxy_passes_the_request_and_the_answer_on(
    first: Client, connection: dict[str, Any], shop: Shop, plain: dict[str, Any]
) -> None:
    answer = through(
        first,
        connection,
        "orders/a%2Fb?x=1&x=%20",
        method="PATCH",
        raw=b'{"n": 10000000000000000000001}',
        X_Own="7",
        Content_Type="application/merge-patch+json",
    )
    assert (answer.status, answer.raw) == (200, b"done")
    assert answer.headers["X-Tieline-Upstream-Status"] == "200"
    assert shop.last["method"] == "PATCH"
    assert shop.last["target"] == "/v1/orders/a%2Fb?version=2&x=1&x=%20"
    assert shop.last["body"] == b'{"n": 10000000000000000000001}'
    sent = shop.last["headers"]
    assert (sent["x-own"], sent["content-type"]) == ("7", "application/merge-patch+json")
    answer = through(first, plain, "json")
    assert (answer.status, answer.json) == (201, {"orders": [1]})
    assert answer.headers["X-RateLimit-Remaining"] == "7"
    assert answer.headers["Content-Type"].startswith("application/json")
    assert through(first, plain, "binary").raw == bytes(range(256))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE"])
def test_every_method_gets_through(first: Client, plain: dict[str, Any], shop: Shop, method: str) -> None:
    assert through(first, plain, "orders", method=method).status == 200
    assert (shop.last["method"], shop.last["target"]) == (method, "/orders")


@pytest.mark.parametrize("status", [204, 304, 401, 404, 500])
def test_an_error_of_the_system_is_its_answer(first: Client, plain: dict[str, Any], status: int) -> None:
    answer = through(first, plain, f"status/{status}")
    assert (answer.status, answer.headers["X-Tieline-Upstream-Status"]) == (status, str(status))


def test_an_error_of_the_api_is_told_apart(first: Client, plain: dict[str, Any]) -> None:
    answer = Client(first.url, "wrong", first.organisation)("GET", f"/connections/{plain['id']}/proxy/json")
    assert answer.status == 401
    assert "X-Tieline-Upstream-Status" not in answer.headers


def test_what_the_caller_shows_to_the_api_stays_there(
    first: Client, plain: dict[str, Any], shop: Shop
) -> None:
    through(
        first,
        plain,
        "orders",
        Cookie="session=mine",
        X_Tieline_Console="1",
        X_Forwarded_For="10.0.0.1",
        Proxy_Authorization="Basic bWluZQ==",
        Origin="https://console.example",
        Sec_Fetch_Site="none",
        X_Own="1",
    )
    sent = shop.last["headers"]
    assert (sent["x-api-key"], sent["x-own"], sent["host"]) == (KEY, "1", urlsplit(shop.url).netloc)
    kept_back = {"authorization", "cookie", "origin", "sec-fetch-site", "proxy-authorization"}
    assert not (kept_back | {"x-tieline-console", "x-forwarded-for"}) & sent.keys()
    target = f"/api/v2/o/{first.organisation}/connections/{plain['id']}/proxy/orders"
    headers = "X-Hop: 1\r\nTE: trailers\r\nUpgrade: websocket\r\nConnection: X-Hop, Upgrade\r\n"
    assert _sent_as_it_is(first, target, headers=headers).startswith(b"HTTP/1.1 200 ")
    assert not {"x-hop", "te", "upgrade"} & shop.last["headers"].keys()


def test_a_page_of_the_system_cannot_act_as_the_api(first: Client, plain: dict[str, Any]) -> None:
    answer = through(first, plain, "page")
    assert (answer.status, answer.raw) == (200, b"<script>alert(1)</script>")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers["content-security-policy"] == "sandbox; default-src 'none'; frame-ancestors 'none'"
    assert headers["content-disposition"] == "attachment"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["x-kept"] == "1"
    dropped = {name.lower() for name in HOSTILE} - {
        "content-type",
        "content-security-policy",
        "content-disposition",
        "connection",
        "x-kept",
    }
    assert not dropped & headers.keys()


@pytest.mark.parametrize("destination", ["document", "iframe", "script", "style", "serviceworker", "image"])
def test_a_browser_cannot_load_it_as_a_page_or_a_script(
    first: Client, plain: dict[str, Any], shop: Shop, destination: str
) -> None:
    assert through(first, plain, "page", Sec_Fetch_Dest=destination).status == 403
    assert shop.seen == []
    assert through(first, plain, "page", Sec_Fetch_Dest="empty").status == 200


def test_a_redirect_is_told_and_not_followed(first: Client, plain: dict[str, Any], shop: Shop) -> None:
    answer = through(first, plain, "away")
    assert answer.status == 302
    assert answer.headers["X-Tieline-Upstream-Location"] == "https://elsewhere.example/"
    assert "Location" not in answer.headers
    assert len(shop.seen) == 1


def test_a_system_that_repeats_the_request_shows_no_secret(first: Client, plain: dict[str, Any]) -> None:
    answer = through(first, plain, "echo")
    assert answer.json["x-api-key"] == "***"
    assert KEY not in str(answer.headers)


def test_a_large_answer_is_refused_and_a_large_body_too(
    first: Client, plain: dict[str, Any], shop: Shop
) -> None:
    answer = through(first, plain, "large")
    assert (answer.status, answer.json["code"]) == (502, "answer_too_large")
    before = len(shop.seen)
    assert through(first, plain, "orders", method="POST", raw=b"x" * (2 << 20)).status == 413
    assert len(shop.seen) == before


# --- credentials -------------------------------------------------------------------------------------


def test_a_key_in_the_query_replaces_the_callers(first: Client, shop: Shop) -> None:
    scheme = {"type": "api-key", "apiKey": {"id": "q", "name": "key", "in": "query"}}
    made = of_scheme(first, shop, scheme, "string", {"string": {"value": KEY}})
    assert outcome(first, made, path="/orders")["ok"]
    assert shop.last["target"] == f"/orders?key={KEY}"
    through(first, made, "orders?key=mine&b=1")
    assert shop.last["target"] == f"/orders?b=1&key={KEY}"


def test_basic_authentication_replaces_the_callers(first: Client, shop: Shop) -> None:
    scheme = {"type": "basic-auth", "basicAuth": {"id": "b"}}
    data = {"basicAuth": {"username": "ann", "password": "pässword-1"}}
    made = of_scheme(first, shop, scheme, "basic-auth", data)
    expected = base64.b64encode("ann:pässword-1".encode()).decode()
    through(first, made, "orders")
    assert shop.last["headers"]["authorization"] == f"Basic {expected}"
    assert expected not in through(first, made, "echo").raw.decode()


def test_a_signature_is_over_the_body_that_is_sent(first: Client, shop: Shop) -> None:
    hmac_fields: dict[str, Any] = {"id": "h", "name": "X-Signature", "in": "header", "algorithm": "sha256"}
    hmac_fields["digestInputs"] = ["body"]
    made = of_scheme(first, shop, {"type": "hmac", "hmac": hmac_fields}, "string", {"string": {"value": KEY}})
    assert through(first, made, "orders", method="POST", raw=b'{"a":1}').status == 200
    digest = hmac.new(KEY.encode(), b'{"a":1}', hashlib.sha256).digest()
    assert shop.last["headers"]["x-signature"] in (digest.hex(), base64.b64encode(digest).decode())


def test_a_token_that_is_answered_with_401_is_refreshed_once(
    first: Client, kubectl: Kubectl, org: Organisation, login: Provider, shop: Shop
) -> None:
    pod = Pod(first, kubectl, org, login)
    first.ok("PUT", f"/connections/{pod.connection['id']}", {"baseUrl": shop.url})
    shop.rejected.add("Bearer at-given")
    answer = through(first, pod.connection, "orders", method="POST", raw=b"7")
    assert answer.status == 200
    assert [one["body"] for one in shop.seen] == [b"7", b"7"]
    assert [one["refresh_token"] for one in login.requests] == ["rt-given"]
    assert outcome(first, pod.connection)["ok"]


# --- who may ----------------------------------------------------------------------------------------


def test_a_viewer_may_not_act_with_a_connections_credentials(
    first: Client,
    plain: dict[str, Any],
    shop: Shop,
    org: Organisation,
    token_for: Callable[..., str],
) -> None:
    viewer = Client(first.url, token_for(org.namespace, "looks-on", "tieline-viewer"), org.id)
    assert viewer("GET", f"/connections/{plain['id']}").status == 200
    assert through(viewer, plain, "orders").status == 403
    assert viewer("POST", f"/connections/{plain['id']}/test", {}).status == 403
    assert shop.seen == []


def test_a_connection_of_another_organisation_is_not_there(
    first: Client, neighbour: Client, plain: dict[str, Any], shop: Shop
) -> None:
    other = Client(first.url, neighbour.token, neighbour.organisation)
    eventually("the other organisation there", lambda: other("GET", "/projects").status == 200)
    assert through(other, plain, "orders").status == 404
    assert other("POST", f"/connections/{plain['id']}/test", {}).status == 404
    assert through(Client(first.url, neighbour.token, first.organisation), plain, "orders").status == 404
    assert shop.seen == []


def test_the_log_tells_who_sent_what_and_no_query(
    first: Client, plain: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="tieline_api")
    through(first, plain, "orders?secret=mine", method="DELETE")
    (line,) = [one for one in caplog.records if one.getMessage() == "A request through a connection"]
    assert (line.__dict__["method"], line.__dict__["path"], line.__dict__["status"]) == (
        "DELETE",
        "/orders",
        200,
    )
    assert line.__dict__["user"].endswith(":admin")
    assert "mine" not in json.dumps({key: str(value) for key, value in line.__dict__.items()})
    assert KEY not in str(line.__dict__)


def test_a_connection_with_limits_is_kept_within_them(first: Client, shop: Shop) -> None:
    _, template = make_template(first)
    limits = {"concurrent": 1}
    made = connect(first, template, KEY, baseUrl=shop.url, limits=limits)
    assert through(first, made, "orders").status == 200
    assert through(first, made, "orders").status == 200


# --- the command --------------------------------------------------------------------------------------


def test_the_command_tests_a_connection_and_calls_through_it(
    first: Client, plain: dict[str, Any], shop: Shop, tmp_path: Path
) -> None:
    tieline = Command(first, tmp_path)
    assert "did not refuse the credentials" in tieline("connections", "test", plain["id"])
    assert shop.last["target"] == "/"
    refused = tieline("connections", "test", plain["id"], "--path", "/status/403", code=1)
    assert "does not work" in refused
    assert tieline("connections", "call", plain["id"], "/json?a=1") == '{"orders": [1]}'
    assert shop.last["target"] == "/json?a=1"
    tieline("connections", "call", plain["id"], "orders", "-d", '{"b":1}', "-H", "X-Own: 2")
    sent = shop.last
    assert (sent["method"], sent["body"], sent["headers"]["x-own"]) == ("POST", b'{"b":1}', "2")
    assert "The system answers 404" in tieline("connections", "call", plain["id"], "status/404", code=1)
    assert "must be a path" in tieline("connections", "call", plain["id"], "//elsewhere.example", code=1)
