"""HMAC signatures, as a receiver computes them from the raw bytes that it got."""

import asyncio
import base64
import hmac
import io
import os
import time
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from tests.unit.runtime.external_systems import ContextFor, External, api_key, environment, scheme_credential
from tieline import CredentialError
from tieline.configuration.snapshot import parse_credential
from tieline.server.webhook_signatures import verify_signature
from tieline_protocol.signature_presets import PRESETS
from tieline_protocol.signatures import parse

KEY = b"\x00\xffkey of bytes"


def signing(**options: Any) -> dict[str, Any]:
    return scheme_credential(
        "hmac",
        {"name": "X-Signature", "in": "header", "algorithm": "sha256", "digestInputs": ["body"], **options},
        type="binary",
        valueBase64=base64.b64encode(KEY).decode(),
    )


def expected(message: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.new(KEY, message, algorithm).digest()


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize(
    ("encoding", "decode"),
    [
        ("hex", bytes.fromhex),
        ("base64", base64.b64decode),
        ("base64url", lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))),
    ],
)
async def test_every_hash_and_encoding_is_what_the_receiver_computes(
    external: External, context_for: ContextFor, algorithm: str, encoding: str, decode: Any
) -> None:
    body = os.urandom(5000)
    ctx = context_for(
        environment(external.url, signing(algorithm=algorithm, encoding=encoding, prefix="v1="))
    )
    await ctx.fetch("shop", "/files", method="PUT", data=body)
    sent = external.last.headers["X-Signature"]
    assert external.last.body == body
    assert sent.startswith("v1=")
    assert decode(sent.removeprefix("v1=")) == expected(body, algorithm)


def multipart() -> aiohttp.FormData:
    form = aiohttp.FormData()
    form.add_field("file", io.BytesIO(bytes(range(256)) * 9), filename="ü.bin", content_type="image/png")
    form.add_field("note", "grüße")
    return form


async def pieces() -> AsyncIterator[bytes]:
    yield b"one\xff"
    yield b"two"


@pytest.mark.parametrize(
    ("options", "content_type"),
    [
        (lambda: {"json": {"a": "ü"}}, "application/json"),
        (lambda: {"data": {"a": "ü b"}}, "application/x-www-form-urlencoded"),
        (lambda: {"data": multipart()}, "multipart/form-data"),
        (lambda: {"data": io.BytesIO(b"\x00file")}, "application/octet-stream"),
        (lambda: {"data": pieces()}, "application/octet-stream"),
        (dict, None),
    ],
)
async def test_every_kind_of_body_is_signed_byte_by_byte(
    external: External, context_for: ContextFor, options: Any, content_type: str | None
) -> None:
    await context_for(environment(external.url, signing())).fetch("shop", "/x", method="POST", **options())
    seen = external.last
    assert bytes.fromhex(seen.headers["X-Signature"]) == expected(seen.body)
    if content_type:
        assert seen.headers["Content-Type"].startswith(content_type)
        assert seen.body


@pytest.mark.parametrize("order", [["body", "url"], ["url", "body"], ["url"]])
async def test_body_and_url_are_signed_in_the_order_given(
    external: External, context_for: ContextFor, order: list[str]
) -> None:
    credential = signing(name="sig", digestInputs=order, **{"in": "query"})
    ctx = context_for(environment(external.url, credential))
    await ctx.fetch("shop", "/a%2Fb?x=1+2&sig=forged", method="POST", data=b"body")
    url, _, sent = str(external.last.url).partition("&sig=")
    parts = {"body": b"body", "url": url.encode()}
    assert url.endswith("/a%2Fb?x=1+2")
    assert bytes.fromhex(sent) == expected(b"".join(parts[part] for part in order))


async def test_what_earlier_credentials_added_is_signed_too(
    external: External, context_for: ContextFor
) -> None:
    secret = scheme_credential("secret", {"name": "pin", "in": "body"}, value="4711")
    ctx = context_for(environment(external.url, secret, signing()))
    await ctx.fetch("shop", "/x", method="POST", json={"a": 1})
    assert external.last.body == b'{"a":1,"pin":"4711"}'
    assert bytes.fromhex(external.last.headers["X-Signature"]) == expected(external.last.body)


SIGNING = sorted(name for name in PRESETS if parse({"preset": name}).can_sign and name not in ("contentful",))


@pytest.mark.parametrize("preset", SIGNING)
async def test_what_is_signed_as_a_sender_does_is_verified_as_its_own(
    external: External, context_for: ContextFor, preset: str
) -> None:
    in_hex = parse({"preset": preset}).key_encoding == "hex"
    credential = scheme_credential("hmac", {"preset": preset}, value="c2VjcmV0" if not in_hex else "c0ffee")
    ctx = context_for(environment(external.url, credential))
    sent = {"a": "ü", "webhookTimestamp": int(time.time() * 1000)}
    await ctx.fetch("shop", "/hook", method="POST", json=sent)
    seen = external.last
    protocol = mock.Mock()
    content = aiohttp.StreamReader(protocol, limit=100, loop=asyncio.get_running_loop())
    content.feed_data(seen.body)
    content.feed_eof()
    request = make_mocked_request(
        "POST", seen.url.raw_path_qs, headers=seen.headers, payload=content, protocol=protocol
    )
    sender = await verify_signature(parse_credential(credential), request, public_url=external.url)
    assert sender.preset == preset


@pytest.mark.parametrize(
    ("preset", "value", "header"),
    [
        ("gitlab", "s3cret", "X-Gitlab-Token"),
        ("chargebee", "ada:p4ss", "Authorization"),
        ("sendgrid", "public", "X-Twilio-Email-Event-Webhook-Signature"),
        ("sns", "arn:aws:sns", "Signature"),
        ("monday", "s3cret", "Authorization"),
    ],
)
async def test_what_only_verifies_leaves_requests_as_they_are(
    external: External, context_for: ContextFor, preset: str, value: str, header: str
) -> None:
    credential = scheme_credential("hmac", {"preset": preset}, value=value)
    await context_for(environment(external.url, credential)).fetch("shop", "/hook", method="POST", json={})
    assert header not in external.last.headers


async def test_a_webhooks_password_does_not_replace_the_access_token(
    external: External, context_for: ContextFor
) -> None:
    webhooks = scheme_credential("hmac", {"preset": "pipedrive"}, value="ada:p4ss")
    ctx = context_for(environment(external.url, api_key("header", "t0ken", name="Authorization"), webhooks))
    await ctx.fetch("shop", "/deals")
    assert external.last.headers["Authorization"] == "t0ken"


async def test_a_signed_header_has_to_be_there(external: External, context_for: ContextFor) -> None:
    ctx = context_for(
        environment(external.url, signing(digestInputs=["header:X-Tenant", "literal:;", "body"]))
    )
    await ctx.fetch("shop", "/x", method="POST", data=b"b", headers={"X-Tenant": "acme"})
    assert bytes.fromhex(external.last.headers["X-Signature"]) == expected(b"acme;b")
    with pytest.raises(CredentialError, match="covers the header X-Tenant, which the request lacks"):
        await ctx.fetch("shop", "/x", method="POST", data=b"b")


async def test_a_body_is_still_signed_after_a_redirect_that_keeps_it(
    external: External, context_for: ContextFor
) -> None:
    external.redirects["/old"] = (307, "/new")
    await context_for(environment(external.url, signing())).fetch(
        "shop", "/old", method="POST", data=multipart()
    )
    old, new = external.seen
    assert new.url.path == "/new"
    assert new.headers["Content-Type"] == old.headers["Content-Type"]
    assert new.body == old.body
    assert bytes.fromhex(new.headers["X-Signature"]) == expected(new.body)


async def test_a_body_that_would_be_compressed_on_its_way_is_refused(
    external: External, context_for: ContextFor
) -> None:
    ctx = context_for(environment(external.url, signing()))
    with pytest.raises(CredentialError, match="compress"):
        await ctx.fetch("shop", "/x", method="POST", data=b"a" * 1000, compress=True)
    assert external.seen == []
