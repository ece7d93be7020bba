"""Webhooks that only run for callers who show the connection's credential."""

import asyncio
import base64
import gzip
import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from multidict import CIMultiDict
from pytest_aiohttp import AiohttpClient
from yarl import URL

from tests.unit.runtime.external_systems import (
    RUN_METADATA,
    api_key,
    basic,
    configured,
    environment,
    scheme_credential,
)
from tieline import Context, Integration, Request
from tieline.server.applications import webhook_application
from tieline.server.webhook_runs import Limits, Runner

Client = TestClient[web.Request, web.Application]
BODY = bytes(range(256)) + "ü\r\n".encode()
PUBLIC = "https://hooks.example/order-sync"


def signed(**options: Any) -> dict[str, Any]:
    defaults = {"name": "X-Hub-Signature", "in": "header", "algorithm": "sha256", "digestInputs": ["body"]}
    return scheme_credential("hmac", {**defaults, **options}, value="k3y")


def digest(message: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.new(b"k3y", message, algorithm).digest()


@pytest.fixture
def serve(aiohttp_client: AiohttpClient, client: aiohttp.ClientSession) -> Any:
    """A server whose webhook ``hook`` is guarded by the connection with these credentials."""

    async def start(*credentials: dict[str, Any], body: dict[str, Any] | None = None) -> Client:
        integration = Integration()

        @integration.webhook("hook", methods=["GET", "POST"], connection="shop")
        async def hook(_ctx: Context, request: Request) -> Any:
            if request.content_type.startswith("multipart/"):
                return [await part.text() async for part in await request.multipart()]
            return await request.read()

        runner = Runner(
            limits=Limits(max_body=100_000, max_runs=10, run_timeout=5),
            configuration=configured(
                body or environment("http://shop.example", *credentials, publicUrl=PUBLIC)
            ),
            client=client,
            run_metadata=RUN_METADATA,
        )
        return await aiohttp_client(webhook_application(integration.webhooks, runner, max_body=100_000))

    return start


async def refused(response: aiohttp.ClientResponse) -> bool:
    """Whether it is the one refusal, which tells nothing but what is wrong with a signature."""
    body = await response.json()
    body.pop("executionId")
    message, _, detail = body.pop("message").partition(": ")
    assert not detail or detail.startswith(
        ("it has no ", "its timestamp ", "no signature matches", "the header X-")
    )
    return (
        response.status == 401
        and body == {"code": "unauthenticated"}
        and message == "The request is not authenticated as this webhook needs it"
    )


@pytest.mark.parametrize("token", [b"\xc3\xbc", b"\xff\xff", b"=", b"QQ==QQ==", b"\xd9\xa1" * 3000])
async def test_credentials_that_are_no_base64_are_refused_and_no_failure(serve: Any, token: bytes) -> None:
    client = await serve(basic())
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(
        b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nAuthorization: Basic " + token + b"\r\n\r\n"
    )
    answer = await reader.readline()
    writer.close()
    assert b" 401 " in answer


@pytest.mark.parametrize(
    ("place", "right", "wrong"),
    [
        ("header", {"headers": {"X-API-Key": "key-1234"}}, {"headers": {"X-API-Key": "key-12345"}}),
        ("query", {"params": {"X-API-Key": "key-1234"}}, {"params": {"X-API-Key": "Key-1234"}}),
        ("cookie", {"cookies": {"X-API-Key": "key-1234"}}, {"cookies": {"X-API-Key": "\udcff"}}),
    ],
)
async def test_the_api_key_lets_in_and_another_does_not(
    serve: Any, place: str, right: dict[str, Any], wrong: dict[str, Any]
) -> None:
    client = await serve(api_key(place))
    assert (await client.post("/hook", data=BODY, **right)).status == 200
    if place != "cookie":
        assert await refused(await client.post("/hook", **wrong))
    assert await refused(await (await serve(api_key(place))).post("/hook"))


@pytest.mark.parametrize("place", ["header", "query", "cookie"])
@pytest.mark.parametrize("values", [("key-1234", "x"), ("x", "key-1234"), ("key-1234", "key-1234")])
async def test_a_key_that_is_sent_twice_is_refused(serve: Any, place: str, values: tuple[str, str]) -> None:
    """Whoever stands before the pod may have read the other one."""
    client = await serve(api_key(place))
    pairs = [("X-API-Key", value) for value in values]
    sent: dict[str, Any] = {
        "header": {"headers": CIMultiDict(pairs)},
        "query": {"params": pairs},
        "cookie": {"headers": {"Cookie": "; ".join(f"{name}={value}" for name, value in pairs)}},
    }[place]
    assert await refused(await client.post("/hook", **sent))


@pytest.mark.parametrize(("sent", "status"), [("Bearer key-1234", 200), ("key-1234", 401), ("Bearer ", 401)])
async def test_the_api_key_needs_its_prefix(serve: Any, sent: str, status: int) -> None:
    credential = api_key("header", name="Authorization")
    credential["authScheme"]["apiKey"]["prefix"] = "Bearer "
    client = await serve(credential)
    assert (await client.get("/hook", headers={"Authorization": sent})).status == status


async def test_two_authorization_headers_are_refused(serve: Any) -> None:
    client = await serve(basic())
    token = base64.b64encode("ann:pa55wörd".encode()).decode()
    headers = CIMultiDict([("Authorization", f"Basic {token}"), ("Authorization", "Basic x")])
    assert await refused(await client.post("/hook", headers=headers))


async def test_user_name_and_password_let_in(serve: Any) -> None:
    client = await serve(basic())
    token = base64.b64encode("ann:pa55wörd".encode()).decode()
    assert (await client.post("/hook", headers={"Authorization": f"Basic {token}"})).status == 200
    assert (await client.post("/hook", headers={"Authorization": f"basic {token}"})).status == 200
    for other in (
        "",
        f"Bearer {token}",
        "Basic !",
        "Basic " + base64.b64encode(b"ann:other").decode(),
    ):
        assert await refused(await client.post("/hook", headers={"Authorization": other}))


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("hex", bytes.hex),
        ("hex", lambda raw: raw.hex().upper()),
        ("base64", lambda raw: base64.b64encode(raw).decode()),
        ("base64url", lambda raw: base64.urlsafe_b64encode(raw).decode()),
        ("base64url", lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("=")),
    ],
)
async def test_a_signature_over_the_exact_bytes_lets_in(
    serve: Any, algorithm: str, encoding: str, encode: Any
) -> None:
    client = await serve(signed(algorithm=algorithm, encoding=encoding, prefix="v0="))
    headers = {"X-Hub-Signature": "v0=" + encode(digest(BODY, algorithm))}
    response = await client.post("/hook", data=BODY, headers=headers)
    assert (response.status, await response.read()) == (200, BODY)
    assert await refused(await client.post("/hook", data=BODY + b" ", headers=headers))
    headers = {"X-Hub-Signature": encode(digest(BODY, algorithm))}
    assert await refused(await client.post("/hook", data=BODY, headers=headers))


async def test_a_body_that_a_proxy_has_compressed_verifies_as_it_was_signed(serve: Any) -> None:
    client = await serve(signed())
    headers = {"X-Hub-Signature": digest(BODY).hex(), "Content-Encoding": "gzip"}
    answer = await client.post("/hook", data=gzip.compress(BODY), headers=headers)
    assert (answer.status, await answer.read()) == (200, BODY)
    headers["X-Hub-Signature"] = digest(gzip.compress(BODY)).hex()
    assert await refused(await client.post("/hook", data=gzip.compress(BODY), headers=headers))


async def test_the_body_can_still_be_read_part_by_part(serve: Any) -> None:
    client = await serve(signed())
    body = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\none\r\n--b--\r\n'
    headers = {
        "X-Hub-Signature": digest(body).hex(),
        "Content-Type": "multipart/form-data; boundary=b",
    }
    for _ in range(2):
        response = await client.post("/hook", data=body, headers=headers)
        assert await response.json() == ["one"]


@pytest.mark.parametrize("order", [["url"], ["url", "body"], ["body", "url"]])
async def test_the_url_is_signed_as_the_sender_knows_it(serve: Any, order: list[str]) -> None:
    client = await serve(signed(digestInputs=order, name="sig", **{"in": "query"}))
    own = str(client.make_url("")).rstrip("/")
    for base in (PUBLIC, own):
        parts = {"body": b"x", "url": f"{base}/hook?b=1&a=%2F".encode()}
        signature = digest(b"".join(parts[part] for part in order)).hex()
        url = URL(f"/hook?b=1&a=%2F&sig={signature}", encoded=True)
        assert (await client.post(url, data=b"x")).status == 200
    parts["url"] = b"https://elsewhere.example/hook"
    signature = digest(b"".join(parts[part] for part in order)).hex()
    assert await refused(await client.post(f"/hook?sig={signature}", data=b"x"))


@pytest.mark.parametrize(
    ("sent", "let_in"),
    [(0, True), (-50, True), (50, True), (-70, False), (70, False), (None, False), (float("nan"), False)],
)
async def test_a_request_from_outside_the_window_is_refused(
    serve: Any, sent: float | None, let_in: bool
) -> None:
    client = await serve(signed(timestampHeader="X-Time", toleranceSeconds=60))
    headers = {"X-Hub-Signature": digest(BODY).hex()}
    if sent is not None:
        headers["X-Time"] = f"{time.time() + sent:.0f}" if sent == sent else "nan"  # noqa: PLR0124
    response = await client.post("/hook", data=BODY, headers=headers)
    assert (response.status == 200) if let_in else await refused(response)


async def test_what_is_wrong_with_a_signature_is_told_but_not_whether_there_is_a_user(serve: Any) -> None:
    client = await serve(signed())
    body = await (await client.post("/hook", data=BODY)).json()
    assert body["message"].endswith(": it has no header X-Hub-Signature")
    dynamic = {
        "templates": {"shop": {"id": "1", "dynamic": True, "linked": False}},
        "users": {"ann": {"connections": environment("http://x.example", signed())["connections"]}},
    }
    client = await serve(body=dynamic)
    messages = [
        (await (await client.post(f"/hook/users/{user}", data=BODY)).json())["message"]
        for user in ("ann", "ben")
    ]
    assert messages == ["The request is not authenticated as this webhook needs it"] * 2


async def test_all_credentials_that_can_be_shown_must_be(serve: Any) -> None:
    client = await serve(api_key("header"), signed())
    key, signature = {"X-API-Key": "key-1234"}, {"X-Hub-Signature": hashlib.sha256(b"").hexdigest()}
    right: Mapping[str, str] = {**key, "X-Hub-Signature": digest(b"").hex()}
    assert (await client.get("/hook", headers=right)).status == 200
    for headers in (key, signature, {**key, **signature}):
        assert await refused(await client.get("/hook", headers=headers))


async def test_nobody_is_let_in_where_there_is_nothing_to_show(serve: Any) -> None:
    token = scheme_credential("oauth2", {}, type="oauth2-token", accessToken="at")
    empty = {**api_key("header"), "data": {"value": ""}}
    unlinked = {"templates": {"shop": {"id": "1", "dynamic": False, "linked": False}}}
    for client in (await serve(), await serve(token), await serve(empty), await serve(body=unlinked)):
        assert await refused(await client.post("/hook", headers={"X-API-Key": ""}))
