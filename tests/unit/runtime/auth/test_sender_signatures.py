"""Signatures of well-known senders: the examples of their documentation, and all that must not verify."""

import asyncio
import base64
import hmac
from typing import Any
from unittest import mock

import pytest
from aiohttp import StreamReader
from aiohttp.test_utils import make_mocked_request
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from tests.unit.runtime.external_systems import scheme_credential
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.configuration.snapshot import Credential, parse_credential
from tieline.server import webhook_signatures
from tieline.server.webhook_signatures import Sender, SignatureError, verify_signature
from tieline_protocol.signatures import (
    MAX_SIGNATURES,
    PRESETS,
    InvalidSignatureSchemeError,
    parse,
    problem_of,
)

Headers = list[tuple[str, str]]

SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SLACK = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
STANDARD = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
STANDARD_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
GITHUB = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
STRIPE_KEY, STRIPE_BODY = "whsec_test_secret", b'{"id": "evt_1", "object": "event"}'
STRIPE = hmac.new(STRIPE_KEY.encode(), b"1492774577." + STRIPE_BODY, "sha256").hexdigest()
SHOPIFY = base64.b64encode(hmac.new(b"hush", b'{"id":1}', "sha256").digest()).decode()

# Where these come from:
# - Slack: docs.slack.dev, "Verifying requests from Slack": secret, time, body and signature are its example.
# - GitHub: docs.github.com, "Validating webhook deliveries": secret, body and signature are its example.
# - Standard Webhooks: test_sign_function in libraries/python/tests/test_webhooks.py of
#   github.com/standard-webhooks/standard-webhooks.
# - Stripe: docs.stripe.com/webhooks/signatures has the form of the header and what is signed, and no secret to its
#   example: the signature is computed here.
# - Shopify: shopify.dev/docs/apps/build/webhooks/verify-deliveries says base64 of HMAC-SHA256 over the raw body, and
#   that X-Shopify-Webhook-Id marks duplicates; it has no example.
# - Meta: developers.facebook.com/docs/graph-api/webhooks/getting-started says HMAC-SHA256 over the payload, in which it
#   has escaped what is not ASCII; it has no example.
# preset, secret, headers, body, the time of it, and the id by which a repeated request is noticed
EXAMPLES: dict[str, tuple[str, str, Headers, bytes, int, str | None]] = {
    "slack's documentation": (
        "slack",
        "8f742231b10e8888abcd99yyyzzz85a5",
        [("X-Slack-Request-Timestamp", "1531420618"), ("X-Slack-Signature", SLACK)],
        SLACK_BODY,
        1531420618,
        "sha256:",
    ),
    "github's documentation": (
        "github",
        "It's a Secret to Everybody",
        [("X-Hub-Signature-256", GITHUB), ("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")],
        b"Hello, World!",
        0,
        "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    ),
    "meta signs like github": (
        "meta",
        "It's a Secret to Everybody",
        [("X-Hub-Signature-256", GITHUB)],
        b"Hello, World!",
        0,
        None,
    ),
    "the reference libraries of standard webhooks": (
        "standard-webhooks",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        [
            ("webhook-id", STANDARD_ID),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", STANDARD),
        ],
        b'{"test": 2432232314}',
        1614265330,
        STANDARD_ID,
    ),
    "stripe, computed": (
        "stripe",
        STRIPE_KEY,
        # The form, and the signature of scheme v0, are those of Stripe's documentation.
        [("Stripe-Signature", f"t=1492774577,v1={STRIPE},v0=6ffbb59b2300aae63f272406069a9788")],
        STRIPE_BODY,
        1492774577,
        "sha256:",
    ),
    "shopify, computed": (
        "shopify",
        "hush",
        [("X-Shopify-Hmac-Sha256", SHOPIFY), ("X-Shopify-Webhook-Id", "b54557e4")],
        b'{"id":1}',
        0,
        "b54557e4",
    ),
}
examples = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)


def credential(key: str = "k3y", **options: Any) -> Credential:
    return parse_credential(scheme_credential("hmac", options, value=key))


async def verified(
    signer: Credential,
    headers: Headers,
    body: bytes,
    *,
    path: str = "/hook",
    public_url: str = "https://hooks.example",
) -> Sender:
    protocol = mock.Mock()
    content = StreamReader(protocol, limit=len(body) + 1, loop=asyncio.get_running_loop())
    content.feed_data(body)
    content.feed_eof()
    request = make_mocked_request(
        "POST", path, headers=CIMultiDict(headers), payload=content, protocol=protocol
    )
    return await verify_signature(signer, request, public_url=public_url)


async def refused(signer: Credential, headers: Headers, body: bytes) -> str:
    with pytest.raises(SignatureError) as error:
        await verified(signer, headers, body)
    return str(error.value)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_time(seconds: float) -> None:
        monkeypatch.setattr(webhook_signatures.time, "time", lambda: seconds)

    return set_time


@examples
async def test_documented_examples_verify(example: Any, clock: Any) -> None:
    preset, key, headers, body, sent, identifier = example
    for now in (sent - 299, sent + 299):
        clock(now)
        sender = await verified(credential(key, preset=preset), headers, body)
        assert sender.preset == preset
        assert sender.delivery_id == identifier or (sender.delivery_id or "").startswith(identifier or "-")
        assert sender.remember_seconds == 600


@examples
async def test_other_secrets_other_bodies_and_missing_headers_do_not(example: Any, clock: Any) -> None:
    preset, key, headers, body, sent, _ = example
    clock(sent)
    right = credential(key, preset=preset)
    other = credential("whsec_" + base64.b64encode(b"other").decode(), preset=preset)
    assert "no signature matches" in await refused(other, headers, body)
    assert "no signature matches" in await refused(right, headers, body + b" ")
    needed = {parse({"preset": preset}).name.lower(), parse({"preset": preset}).timestamp_header.lower()}
    for name, _value in headers:
        if name.lower() in needed:
            message = await refused(right, [pair for pair in headers if pair[0] != name], body)
            assert message.lower() == f"it has no header {name}".lower()
            assert "several headers" in await refused(right, [*headers, (name, "1")], body)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_changed_byte_verifies(example: Any, data: st.DataObject) -> None:
    preset, key, headers, body, sent, _ = example
    signer = credential(key, preset=preset, toleranceSeconds=86400)
    # Of an id, only what is signed counts.
    covered = [pair for pair in headers if pair[0] not in ("X-GitHub-Delivery", "X-Shopify-Webhook-Id")]
    where = data.draw(st.integers(-1, len(covered) - 1))
    if where < 0:
        changed = bytearray(body)
        changed[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
        body = bytes(changed)
    else:
        name, value = covered[where]
        position = data.draw(st.integers(0, len(value) - 1))
        letter = data.draw(st.characters(min_codepoint=33, max_codepoint=126))
        new = value[:position] + letter + value[position + 1 :]
        assume(not _means_the_same(value, new))
        headers = [(one, new if one == name else text) for one, text in headers]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(webhook_signatures.time, "time", lambda: sent)
        with pytest.raises(SignatureError):
            asyncio.run(verified(signer, headers, body))


def _means_the_same(value: str, new: str) -> bool:
    """Digits in capitals, changed padding, and what stands beside the signature that counts."""
    counts, _, _ = value.partition(",v0=")
    is_beside = counts != value and new.startswith(counts)
    return value.lower() == new.lower() or value.rstrip("=") == new.rstrip("=") or is_beside


@pytest.mark.parametrize(
    ("preset", "at", "words"),
    [
        ("slack", 301, "its timestamp is 301 seconds old; at most 300 are accepted"),
        ("slack", -400, "its timestamp is 400 seconds ahead; at most 300 are accepted"),
        ("stripe", 301, "301 seconds old"),
        ("standard-webhooks", 301, "301 seconds old"),
    ],
)
async def test_old_requests_are_refused(preset: str, at: int, words: str, clock: Any) -> None:
    _, key, headers, body, sent, _ = next(one for one in EXAMPLES.values() if one[0] == preset)
    clock(sent + at)
    assert words in await refused(credential(key, preset=preset), headers, body)
    await verified(credential(key, preset=preset, toleranceSeconds=500), headers, body)


async def test_one_of_several_signatures_has_to_match(clock: Any) -> None:
    clock(1614265330)
    _, key, (identifier, sent, _), body, _, _ = EXAMPLES["the reference libraries of standard webhooks"]
    signer = credential(key, preset="standard-webhooks")
    others = [f"v1,{base64.b64encode(bytes([number]) * 32).decode()}" for number in range(MAX_SIGNATURES)]
    await verified(signer, [identifier, sent, ("webhook-signature", f"v1a,x {others[0]}  {STANDARD}")], body)
    many = " ".join([*others[: MAX_SIGNATURES - 1], STANDARD])
    await verified(signer, [identifier, sent, ("webhook-signature", many)], body)
    too_many = " ".join([*others, STANDARD])
    assert "no signature" in await refused(signer, [identifier, sent, ("webhook-signature", too_many)], body)

    clock(1492774577)
    stripe = credential(STRIPE_KEY, preset="stripe")
    rolled = f"t=1492774577, v1={'0' * 64},v1={STRIPE}"
    await verified(stripe, [("Stripe-Signature", rolled)], STRIPE_BODY)


@pytest.mark.parametrize(
    ("preset", "value", "words"),
    [
        ("stripe", f"v1={STRIPE}", "must hold the field t= once"),
        ("stripe", f"t=1492774577,t=9999999999,v1={STRIPE}", "must hold the field t= once"),
        ("stripe", f"t=1492774577,v0={STRIPE}", "holds no field v1="),
        ("stripe", f"t=soon,v1={STRIPE}", "no number of seconds"),
        ("stripe", f"t=nan,v1={STRIPE}", "its timestamp is"),
        ("stripe", f"t=inf,v1={STRIPE}", "its timestamp is"),
        ("stripe", ",=,==,t", "holds no field v1="),
        ("stripe", "t=1492774577,v1=ü", "no signature matches"),
        ("stripe", "t=1492774577,v1=" + ",v1=" * 2000, "holds no field v1="),
        ("stripe", "t=1492774577" + ",v1=0" * 1600, "no signature matches"),
        ("github", STRIPE, 'does not begin with "sha256="'),
        ("github", "sha256=", "no signature matches"),
        ("github", "sha1=" + "0" * 40, 'does not begin with "sha256="'),
        ("shopify", "=", "no signature matches"),
        ("shopify", SHOPIFY.lower(), "no signature matches"),
    ],
)
async def test_hostile_headers_are_refused(preset: str, value: str, words: str, clock: Any) -> None:
    clock(1492774577)
    signer = credential(STRIPE_KEY, preset=preset)
    message = await refused(signer, [(parse({"preset": preset}).name, value)], STRIPE_BODY)
    assert words in message
    assert STRIPE not in message
    assert STRIPE_KEY not in message


OWN = {"name": "sig", "algorithm": "sha256", "digestInputs": ["body"]}
RIGHT, WRONG = hmac.new(b"k3y", b"x", "sha256").hexdigest(), "0" * 64


@pytest.mark.parametrize(
    "query",
    [
        f"sig={RIGHT}&sig={WRONG}",
        f"sig={WRONG}&sig={RIGHT}",
        f"sig={RIGHT}&sig={RIGHT}",
        f"sig={RIGHT}&%73ig=1",
    ],
)
async def test_a_signature_that_is_twice_in_the_query_is_refused(query: str) -> None:
    signer = credential(**OWN, **{"in": "query"})
    await verified(signer, [], b"x", path=f"/hook?a=1&sig={RIGHT}")
    with pytest.raises(SignatureError, match="it has several query parameters sig"):
        await verified(signer, [], b"x", path=f"/hook?{query}")


@pytest.mark.parametrize(
    "cookies",
    [
        [f"sig={RIGHT}; sig={WRONG}"],
        [f"sig={WRONG};sig={RIGHT}"],
        [f"a=1; sig={RIGHT}; sig = {RIGHT}"],
        [f"sig={RIGHT}", f"sig={WRONG}"],
        [f"sig={WRONG}", f"sig={RIGHT}"],
        [f'sig={RIGHT}; b="; sig={WRONG}"'],
    ],
)
async def test_a_signature_that_is_twice_in_cookies_is_refused(cookies: list[str]) -> None:
    signer = credential(**OWN, **{"in": "cookie"})
    await verified(signer, [("Cookie", f"a=1; sig={RIGHT}; b=2")], b"x")
    await verified(signer, [("Cookie", f'sig="{RIGHT}"')], b"x")
    with pytest.raises(SignatureError, match="it has several cookies sig"):
        await verified(signer, [("Cookie", one) for one in cookies], b"x")


@pytest.mark.parametrize(
    ("place", "words"), [("query", "it has no query parameter sig"), ("cookie", "it has no cookie sig")]
)
async def test_a_signature_that_is_not_there_is_refused(place: str, words: str) -> None:
    signer = credential(**OWN, **{"in": place})
    for headers, path in (([], "/hook"), ([("Cookie", "sig=; a=1")], "/hook?sig=")):
        with pytest.raises(SignatureError, match=words):
            await verified(signer, headers, b"x", path=path)


async def test_own_schemes_sign_headers_literals_and_urls_in_their_order(clock: Any) -> None:
    clock(1000)
    options = {
        "name": "X-Sig",
        "in": "header",
        "algorithm": "sha512",
        "digestInputs": ["literal:v2\n", "header:X-Tenant", "literal:\n", "id", "timestamp", "url", "body"],
        "timestampHeader": "X-Time",
        "idHeader": "X-Id",
        "encoding": "base64url",
    }
    signed = b"v2\nacme\ni-11000https://hooks.example/hook?a=%2Fbody"
    value = base64.urlsafe_b64encode(hmac.new(b"k3y", signed, "sha512").digest()).decode()
    headers = [("X-Tenant", "acme"), ("X-Id", "i-1"), ("X-Time", "1000"), ("X-Sig", value)]
    signer = credential(**options)
    request = {"path": "/hook?a=%2F"}
    assert (await verified(signer, headers, b"body", **request)).delivery_id == "i-1"
    for name, other in (("X-Tenant", "acme2"), ("X-Id", "i-2"), ("X-Time", "1001")):
        changed = [(one, other if one == name else text) for one, text in headers]
        with pytest.raises(SignatureError, match="no signature matches"):
            await verified(signer, changed, b"body", **request)
    with pytest.raises(SignatureError, match="it has no header X-Tenant"):
        await verified(signer, headers[1:], b"body", **request)


async def test_keys_are_read_as_their_scheme_says() -> None:
    body, key = b"x", b"\x00\xffkey of bytes"
    fields = {"name": "X-Sig", "in": "header", "algorithm": "sha256", "digestInputs": ["body"]}
    headers = [("X-Sig", hmac.new(key, body, "sha256").hexdigest())]
    encoded = base64.b64encode(key).decode()
    for text in (encoded, encoded.rstrip("="), f"{encoded}\n"):
        await verified(credential(text, keyEncoding="base64", **fields), headers, body)
    await verified(credential(f"k_{encoded}", keyEncoding="base64", keyPrefix="k_", **fields), headers, body)
    for wrong, words in (
        ("", "key is empty"),
        ("k_", "key is empty"),
        ("not base64!", "is not base64"),
        ("schl\u00fcssel", "is not base64"),
    ):
        with pytest.raises(InvalidCredentialError, match=words):
            await verified(credential(wrong, keyEncoding="base64", keyPrefix="k_", **fields), headers, body)


def test_a_key_is_masked_without_its_prefix_too() -> None:
    assert set(credential("whsec_c2VjcmV0", preset="standard-webhooks").secrets()) == {
        "whsec_c2VjcmV0",
        "c2VjcmV0",
    }


COMPLETE = {"name": "X-Sig", "in": "header", "algorithm": "sha256", "digestInputs": ["body"]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "set name, in, algorithm, digestInputs, or a preset"),
        ({"preset": "paypal"}, 'there is no preset "paypal"; there are github, '),
        ({"preset": "stripe", "name": "X-Sig"}, "preset stripe sets name: leave that out"),
        ({"preset": "slack", "prefix": "v0=", "in": "header"}, "preset slack sets in, prefix"),
        ({**COMPLETE, "digestInputs": ["path"]}, 'digestInputs holds "path"; an input is body, url'),
        ({**COMPLETE, "digestInputs": ["header:"]}, 'holds "header:"'),
        ({**COMPLETE, "digestInputs": ["header:a b"]}, 'holds "header:a b"'),
        ({**COMPLETE, "digestInputs": ["literal:"]}, 'holds "literal:"'),
        ({**COMPLETE, "digestInputs": []}, "digestInputs is empty"),
        ({**COMPLETE, "digestInputs": ["body"] * 17}, "a list of 1 to 16"),
        ({**COMPLETE, "digestInputs": ["timestamp", "body"]}, "set timestampHeader, or timestampField"),
        ({**COMPLETE, "digestInputs": ["id", "body"]}, "set idHeader"),
        ({**COMPLETE, "timestampHeader": "X-T", "timestampField": "t"}, "exclude each other"),
        ({**COMPLETE, "signatureFormat": "fields"}, "needs signatureField"),
        ({**COMPLETE, "signatureField": "v1"}, "signatureField needs signatureFormat fields"),
        ({**COMPLETE, "signatureFormat": "fields", "signatureField": "v=1"}, "no comma, equals sign"),
        ({**COMPLETE, "algorithm": "md5"}, "algorithm must be one of sha1, sha256, sha512"),
        ({**COMPLETE, "in": "body"}, "in must be one of"),
        ({**COMPLETE, "toleranceSeconds": 0}, "from 1 on"),
    ],
)
def test_what_cannot_be_is_told(options: dict[str, Any], words: str) -> None:
    assert words in (problem_of(options) or "")
    with pytest.raises(InvalidSignatureSchemeError):
        parse(options)


def test_presets_are_complete_and_readable() -> None:
    for name, options in PRESETS.items():
        assert problem_of({"preset": name, "toleranceSeconds": 60}) is None
        assert problem_of(options) is None
        assert parse({"preset": name, "toleranceSeconds": 60}).tolerance_seconds == 60
