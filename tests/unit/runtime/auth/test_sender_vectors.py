"""Requests of senders as they document them: each verifies, and nothing that differs from it does."""

import json
from typing import Any

import pytest

from tests.unit.runtime.auth.sender_vectors import VECTORS, Headers, Vector, credential
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.server.webhook_signatures import SignatureError
from tieline_protocol.signature_presets import PRESETS
from tieline_protocol.signatures import VALUE_ALGORITHMS, SignatureScheme, parse

# Their proof does not cover the body.
UNCOVERED = ("atlassian-connect", "dropbox-sign", "mailgun", "monday", "adyen")
OTHER_SECRETS = {
    "adyen": "00" * 32,
    "adyen-platform": "00" * 32,
    "airtable": "b3RoZXI=",
    "chargebee": "ada:other",
    "discord": "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    "freshdesk": "ada:other",
    "pipedrive": "ada:other",
    "postmark": "ada:other",
    "standard-webhooks-ed25519": "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
    "telnyx": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
}
KEYS_OF_OTHERS = ("paddle-classic", "plaid", "sendgrid", "wise")


def label(one: Vector) -> str:
    return f"{one.preset}-{one.origin}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_time(seconds: float) -> None:
        monkeypatch.setattr("tieline.server.webhook_signatures.time.time", lambda: seconds)

    return set_time


def scheme_of(one: Vector) -> SignatureScheme:
    return parse({"preset": one.preset})


def carriers(one: Vector) -> list[str]:
    """The headers without which the request proves nothing."""
    scheme = scheme_of(one)
    named = [name for name in scheme.names if scheme.location == "header"]
    needed = [*named, scheme.timestamp_header, scheme.id_header if scheme.signs("id") else ""]
    lowered = {name.lower() for name in needed if name}
    return [name for name, _ in one.headers if name.lower() in lowered]


def test_every_preset_has_an_example() -> None:
    assert {one.preset for one in VECTORS} == set(PRESETS)
    assert {one.origin for one in VECTORS} == {"published", "sdk", "computed"}
    assert all(one.source.startswith("https://") == (one.origin != "computed") for one in VECTORS)


@pytest.mark.parametrize("one", VECTORS, ids=label)
async def test_the_senders_example_verifies_and_no_other(one: Vector, clock: Any) -> None:
    await _the_senders_example_verifies(one, clock)
    await _a_flipped_bit_is_refused(one, clock)
    await _an_old_time_is_refused(one, clock)
    await _another_secret_is_refused(one, clock)
    await _absent_and_second_headers_are_refused(one, clock)
    await _a_body_without_its_signature_is_refused(one, clock)


async def _the_senders_example_verifies(one: Vector, clock: Any) -> None:
    tolerance = scheme_of(one).tolerance_seconds
    for now in (one.when - tolerance + 1, one.when + tolerance - 1):
        clock(now)
        sender = await one.verified()
        assert sender.preset == one.preset
        assert sender.remember_seconds == 2 * tolerance


async def _a_flipped_bit_is_refused(one: Vector, clock: Any) -> None:
    clock(one.when)
    scheme = scheme_of(one)
    if scheme.algorithm not in VALUE_ALGORITHMS and one.preset not in UNCOVERED and one.body:
        for place in (0, len(one.body) // 2, len(one.body) - 1):
            changed = bytearray(one.body)
            changed[place] ^= 1
            with pytest.raises(SignatureError):
                await one.verified(body=bytes(changed))
    for name in {one.lower() for one in carriers(one)} if len(scheme.names) == 1 else ():
        for place in (-3, -8):
            headers = [
                (key, _flipped(value, place) if key.lower() == name else value) for key, value in one.headers
            ]
            with pytest.raises(SignatureError):
                await one.verified(headers=headers)


def _flipped(text: str, place: int) -> str:
    place %= len(text)
    return text[:place] + ("4" if text[place] != "4" else "5") + text[place + 1 :]


async def _an_old_time_is_refused(one: Vector, clock: Any) -> None:
    if one.at is None:
        assert not scheme_of(one).has_timestamp
        clock(one.when + 10**9)
        await one.verified()
        return
    for away in (1000.0, -1000.0):
        clock(one.when + away * (86 if one.preset == "sns" else 1))
        with pytest.raises(SignatureError, match=r"accepted|expired|not valid yet"):
            await one.verified()


async def _another_secret_is_refused(one: Vector, clock: Any) -> None:
    clock(one.when)
    other = OTHER_SECRETS.get(one.preset, "whsec_b3RoZXItc2VjcmV0LW9mLXRoaXJ0eS10d28tYnl0ZXM=")
    expected = InvalidCredentialError if one.preset in KEYS_OF_OTHERS else SignatureError
    with pytest.raises(expected):
        await one.verified(credential(other, preset=one.preset))
    for empty in ("", "whsec_"):
        if scheme_of(one).key_prefix or not empty:
            with pytest.raises(InvalidCredentialError):
                await one.verified(credential(empty, preset=one.preset))


async def _absent_and_second_headers_are_refused(one: Vector, clock: Any) -> None:
    clock(one.when)
    several = len(scheme_of(one).names) > 1
    for name in carriers(one):
        absent: Headers = [pair for pair in one.headers if pair[0] != name]
        twice: Headers = [*one.headers, (name, "1")]
        if not several:
            with pytest.raises(SignatureError, match="it has no header"):
                await one.verified(headers=absent)
        with pytest.raises(SignatureError, match="it has several headers"):
            await one.verified(headers=twice)
    if several:
        gone = {name.lower() for name in scheme_of(one).names}
        with pytest.raises(SignatureError, match="it has no header"):
            await one.verified(headers=[pair for pair in one.headers if pair[0].lower() not in gone])


async def _a_body_without_its_signature_is_refused(one: Vector, clock: Any) -> None:
    clock(one.when)
    scheme = scheme_of(one)
    if scheme.location == "query":
        with pytest.raises(SignatureError, match="it has no query parameter"):
            await one.verified(url=one.url.partition("?")[0])
        with pytest.raises(SignatureError, match="it has several query parameters"):
            await one.verified(url=f"{one.url}&{scheme.name}=1")
    if scheme.location == "body":
        last = scheme.name.split(".")[-1]
        assert last.encode() in one.body
        with pytest.raises(SignatureError):
            await one.verified(body=one.body.replace(last.encode(), b"another"))
        with pytest.raises(SignatureError):
            await one.verified(body=_with_another(one, last))


def _with_another(one: Vector, name: str) -> bytes:
    """The same field once more, with another value."""
    if not one.body.startswith(b"{"):
        return one.body + f"&{name}=1".encode()
    return one.body.replace(f'"{name}"'.encode(), f'"{name}": {json.dumps("x")}, "{name}"'.encode(), 1)
