"""Signatures of well-known senders: the examples of their documentation, and all that must not verify."""

import asyncio
import base64
import hmac
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.runtime.auth.sender_vectors import Headers, Vector, vector
from tests.unit.runtime.auth.sender_vectors import credential as credential_of
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.configuration.snapshot import Credential
from tieline.server.webhook_signatures import Sender, SignatureError
from tieline_protocol.signature_presets import PRESETS
from tieline_protocol.signatures import (
    MAX_SIGNATURES,
    SET_BY_PRESET,
    InvalidSignatureSchemeError,
    parse,
    problem_of,
)

SVIX = vector("standard-webhooks")
SIX = [vector(name) for name in ("github", "meta", "shopify", "slack", "standard-webhooks", "stripe")]
SHOPIFY = dict(vector("shopify").headers)["X-Shopify-Hmac-Sha256"]
STRIPE_KEY, STRIPE_BODY = "whsec_test_secret", b'{"id": "evt_1", "object": "event"}'
STRIPE = hmac.new(STRIPE_KEY.encode(), b"1492774577." + STRIPE_BODY, "sha256").hexdigest()
STANDARD = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def credential(key: str = "k3y", **options: Any) -> Credential:
    return credential_of(key, **options)


async def verified(signer: Credential, headers: Headers, body: bytes, *, path: str = "/hook") -> Sender:
    return await SVIX.verified(signer, headers=headers, body=body, url=f"https://hooks.example{path}")


async def refused(signer: Credential, headers: Headers, body: bytes) -> str:
    with pytest.raises(SignatureError) as error:
        await verified(signer, headers, body)
    return str(error.value)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_time(seconds: float) -> None:
        monkeypatch.setattr("tieline.server.webhook_signatures.time.time", lambda: seconds)

    return set_time


@pytest.mark.parametrize(
    ("preset", "identifier"),
    [
        ("slack", "sha256:"),
        ("github", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("meta", None),
        ("standard-webhooks", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("stripe", "sha256:"),
        ("shopify", "b54557e4"),
        ("sns", "22b80b92"),
        ("plaid", "sha256:"),
        ("linear", "d-1"),
        ("gitlab", None),
    ],
)
async def test_a_repeated_request_has_the_same_id(preset: str, identifier: str | None, clock: Any) -> None:
    one = vector(preset)
    clock(one.when)
    found = (await one.verified()).delivery_id
    assert found == identifier or (found or "").startswith(identifier or "-")
    assert (await one.verified()).delivery_id == found


@pytest.mark.parametrize("example", SIX, ids=lambda one: one.preset)
@settings(max_examples=40)
@given(data=st.data())
def test_no_changed_byte_verifies(example: Vector, data: st.DataObject) -> None:
    body, headers = example.body, example.headers
    signer = example.credential(toleranceSeconds=86400)
    # Of an id, only what is signed counts.
    beside = ("X-GitHub-Delivery", "X-Shopify-Webhook-Id", "Content-Type")
    covered = [pair for pair in headers if pair[0] not in beside]
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
        patched.setattr("tieline.server.webhook_signatures.time.time", lambda: example.when)
        with pytest.raises(SignatureError):
            asyncio.run(example.verified(signer, headers=headers, body=body))


def _means_the_same(value: str, new: str) -> bool:
    """Digits in capitals, and changed padding."""
    return value.lower() == new.lower() or value.rstrip("=") == new.rstrip("=")


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
    one = vector(preset)
    clock(one.when + at)
    assert words in await refused(one.credential(), one.headers, one.body)
    await one.verified(one.credential(toleranceSeconds=500))


async def test_one_of_several_signatures_has_to_match(clock: Any) -> None:
    clock(1614265330)
    (identifier, sent, *_), body, signer = SVIX.headers, SVIX.body, SVIX.credential()
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


OWN: dict[str, Any] = {"name": "sig", "algorithm": "sha256", "digestInputs": ["body"]}
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
    options: dict[str, Any] = {
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
        ({"preset": "acme"}, 'there is no preset "acme"; there are adyen, '),
        ({"preset": "stripe", "name": "X-Sig"}, "preset stripe sets name: leave that out"),
        ({"preset": "slack", "prefix": "v0=", "in": "header"}, "preset slack sets in, prefix"),
        ({**COMPLETE, "digestInputs": ["host"]}, 'digestInputs holds "host"; an input is body, url'),
        ({**COMPLETE, "digestInputs": ["header:"]}, 'holds "header:"'),
        ({**COMPLETE, "digestInputs": ["header:a b"]}, 'holds "header:a b"'),
        ({**COMPLETE, "digestInputs": ["literal:"]}, 'holds "literal:"'),
        ({**COMPLETE, "digestInputs": []}, "digestInputs is empty"),
        ({**COMPLETE, "digestInputs": ["body"] * 25}, "a list of 1 to 24"),
        (
            {**COMPLETE, "digestInputs": ["timestamp", "body"]},
            "set timestampHeader, timestampPath, or timestampField",
        ),
        ({**COMPLETE, "digestInputs": ["id", "body"]}, "set idHeader"),
        ({**COMPLETE, "timestampHeader": "X-T", "timestampField": "t"}, "exclude each other"),
        ({**COMPLETE, "signatureFormat": "fields"}, "needs signatureField"),
        ({**COMPLETE, "signatureField": "v1"}, "signatureField needs signatureFormat fields"),
        ({**COMPLETE, "signatureFormat": "fields", "signatureField": "v=1"}, "no comma, equals sign"),
        ({**COMPLETE, "algorithm": "md5"}, "algorithm must be one of sha1, sha256, sha384"),
        ({**COMPLETE, "in": "path"}, "in must be one of query, header, cookie, body"),
        ({**COMPLETE, "toleranceSeconds": 0}, "from 1 on"),
        ({**COMPLETE, "algorithm": "hash-sha256"}, "proves nothing without the secret"),
        ({**COMPLETE, "digestInputs": ["secret", "body"]}, "which an HMAC has as its key"),
        ({**COMPLETE, "algorithm": "token"}, "algorithm token takes no digestInputs"),
        (
            {"name": "a/b", "in": "header", "algorithm": "token"},
            "the path of a field of the body needs in body",
        ),
        ({**COMPLETE, "bodyHash": "claim:sha256"}, "names a claim with an algorithm of the family jwt-"),
        ({**COMPLETE, "bodyHash": "sha256"}, "claim:NAME, query:NAME or header:NAME"),
        ({**COMPLETE, "separator": ";"}, "separator needs signatureFormat fields, list or timedList"),
        ({**COMPLETE, "otherNames": ["X-B"], "in": "cookie"}, "otherNames are at most 7 further headers"),
        ({**COMPLETE, "timestampPath": "t", "timestampHeader": "X-T"}, "exclude each other"),
        ({**COMPLETE, "timestampUnit": "minutes"}, "timestampUnit must be one of seconds"),
        ({"preset": "slack", "answer": {"status": 500}}, "answer: status is a number from 200 to 299"),
        ({"preset": "slack", "refusal": {"status": 200}}, "refusal: status is a number from 400 to 499"),
        ({"preset": "slack", "answer": {"status": 200, "body": "x" * 1025}}, "at most 1024 characters"),
        ({**COMPLETE, "challenges": [{"proof": "none"}]}, "without a signature needs a condition"),
        ({**COMPLETE, "challenges": [{"body": "{challenge}"}]}, "needs value, the place where it is"),
        ({**COMPLETE, "challenges": [{"when": ["path:a"]}]}, "is no condition; a condition is a place"),
        ({**COMPLETE, "challenges": [{"proof": "key"}]}, "proofIn is needed with a challenge's proof"),
        ({**COMPLETE, "challenges": [{"contentType": "text/html"}]}, "and not text/html"),
        ({**COMPLETE, "challenges": [{}] * 5}, "challenges is a list of at most 4"),
    ],
)
def test_invalid_options_are_reported(options: dict[str, Any], words: str) -> None:
    assert words in (problem_of(options) or "")
    with pytest.raises(InvalidSignatureSchemeError):
        parse(options)


def test_empty_fields_change_no_preset() -> None:
    empty: dict[str, Any] = {**dict.fromkeys(SET_BY_PRESET, ""), "digestInputs": None, "challenges": None}
    for name in PRESETS:
        assert parse({**empty, "preset": name}) == parse({"preset": name})
    assert "sets digestInputs" in (problem_of({"preset": "github", "digestInputs": []}) or "")


def test_presets_are_complete_and_readable() -> None:
    assert list(PRESETS) == sorted(PRESETS)
    for name, preset in PRESETS.items():
        assert problem_of({"preset": name, "toleranceSeconds": 60}) is None
        assert problem_of(preset.options) is None
        assert preset.source.startswith("https://")
        assert parse({"preset": name, "toleranceSeconds": 60}).tolerance_seconds == 60
