"""What attackers try with webhooks: other algorithms, other certificates, other forms, and requests sent again."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.unit.runtime.auth.sender_vectors import Vector, credential, vector
from tests.unit.runtime.external_systems import scheme_credential
from tieline.auth.jwt_proofs import query_hash
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.configuration.snapshot import parse_credential, without_replaced
from tieline.server import handshakes, sender_certificates
from tieline.server.sender_certificates import (
    CONFIRMATION_URL,
    CertificateError,
    SenderCertificates,
    fetch_by,
)
from tieline.server.webhook_signatures import SignatureError

SECRET = "s3cret-of-thirty-two-characters!"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC = RSA.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
BY_JWT: dict[str, Any] = {"name": "Authorization", "in": "header", "prefix": "Bearer "}
SNS, CERTIFICATE = vector("sns"), vector("sns").certificate.encode()
SNS_URL = json.loads(SNS.body)["SigningCertURL"]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.server.webhook_signatures.time.time", lambda: 1_700_000_000)


async def with_token(token: str, secret: str = SECRET, body: bytes = b"{}", **options: Any) -> None:
    signer = credential(secret, **{"algorithm": "jwt-hs256", **BY_JWT, **options})
    await SNS.verified(signer, headers=[("Authorization", f"Bearer {token}")], body=body)


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in (header, claims)
    ]
    return ".".join([*parts, ""])


async def test_the_algorithm_is_the_schemes_whatever_a_token_says() -> None:
    await with_token(jwt.encode({"iat": 1_700_000_000}, SECRET, algorithm="HS256"))
    with pytest.raises(SignatureError):
        await with_token(unsigned({"alg": "none"}, {}))
    with pytest.raises(SignatureError):
        await with_token(jwt.encode({}, SECRET, algorithm="HS512"))
    # The public key as the secret of an HMAC.
    signed = unsigned({"alg": "HS256"}, {}).rstrip(".")
    mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(signed.encode(), PUBLIC)
    forged = f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
    with pytest.raises(SignatureError):
        await with_token(forged, PUBLIC.decode(), algorithm="jwt-rs256")
    with pytest.raises(InvalidCredentialError):
        await with_token(forged, PUBLIC.decode(), algorithm="jwt-hs256")
    await with_token(jwt.encode({}, RSA, algorithm="RS256"), PUBLIC.decode(), algorithm="jwt-rs256")
    with pytest.raises(InvalidCredentialError, match="does not fit"):
        await with_token(jwt.encode({}, RSA, algorithm="RS256"), PUBLIC.decode(), algorithm="jwt-es256")


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": 1_699_999_000}, "has expired"),
        ({"iat": 1_699_999_000}, "1000 seconds old"),
        ({"iat": 1_700_001_000}, "not valid yet"),
        ({"nbf": 1_700_001_000, "exp": 1_700_009_000}, "not valid yet"),
        ({"exp": True}, "exp is no time"),
        ({"iat": float("nan")}, "not valid yet"),
    ],
)
async def test_tokens_of_other_times_are_refused(claims: dict[str, Any], words: str) -> None:
    token = jwt.api_jws.encode(json.dumps(claims).encode(), SECRET, algorithm="HS256")
    with pytest.raises(SignatureError, match=words):
        await with_token(token)
    with pytest.raises(SignatureError, match=r"more than|no signature"):
        await with_token("a" * 9000 if words == "has expired" else token + "a" * 9000)


async def test_a_token_is_for_its_body_and_url_alone() -> None:
    plaid, connect = vector("plaid"), vector("atlassian-connect")
    with pytest.raises(SignatureError, match="for another body"):
        await plaid.verified(body=b"{}")
    for url in ("https://hooks.example/hook?b=x+y&a=2", "https://hooks.example/other?b=x+y&a=2&a=1"):
        with pytest.raises(SignatureError, match="for another method or URL"):
            await connect.verified(url=url)
    with pytest.raises(SignatureError, match="for another method or URL"):
        await connect.verified(method="PUT")
    # The order of parameters does not count, nor does the token itself.
    await connect.verified(url="https://hooks.example/hook?a=1&a=2&b=x%20y&jwt=ey")
    assert query_hash("GET", "/a/?b=1") == query_hash("get", "/a?b=1&jwt=x")


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/",
        "https://sns.us-east-1.amazonaws.com.evil.example/SimpleNotificationService-0123456789abcdef.pem",
        "http://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.us-east-1.amazonaws.com:8443/SimpleNotificationService-0123456789abcdef.pem",
        "https://evil@sns.us-east-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.us-east-1.amazonaws.com@evil.example/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.us-east-1.amazonaws.com/../SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.us-east-1.amazonaws.com/?Action=Publish&x=/SimpleNotificationService-0123456789abcdef.pem",
        "https://my-bucket.s3.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem\n",
        "",
    ],
)
async def test_certificates_are_fetched_from_the_senders_hosts_alone(url: str) -> None:
    asked: list[str] = []

    async def fetch(one: str) -> bytes:
        asked.append(one)
        return CERTIFICATE

    for sender in ("sns", "paypal"):
        with pytest.raises(CertificateError, match="not at one of the sender's own URLs"):
            await SenderCertificates(fetch).key(sender, url)
    body = json.loads(SNS.body)
    with pytest.raises(SignatureError):
        await SNS.verified(body=json.dumps({**body, "SigningCertURL": url}).encode())
    assert not CONFIRMATION_URL.fullmatch(url)
    assert not await SenderCertificates(fetch).confirm(url)
    assert asked == []


async def test_certificates_are_kept_and_fetched_within_a_budget() -> None:
    asked: list[str] = []
    now = 1_700_000_000.0

    async def fetch(one: str) -> bytes:
        asked.append(one)
        if "bad" in one:
            raise ValueError
        return CERTIFICATE

    def url(number: int, word: str = "") -> str:
        return f"https://sns.us-east-1.amazonaws.com/SimpleNotificationService-{word}{number:032x}.pem"

    certificates = SenderCertificates(fetch, lambda: now)
    for _ in range(3):
        await certificates.key("sns", url(1))
        with pytest.raises(CertificateError, match="cannot be fetched"):
            await certificates.key("sns", url(1, "bad"))
    assert len(asked) == 2
    now += sender_certificates.FAILURE_SECONDS
    with pytest.raises(CertificateError):
        await certificates.key("sns", url(1, "bad"))
    assert len(asked) == 3
    for number in range(2, 100):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sender_certificates, "KEPT_SECONDS", 3600.0)
            try:
                await certificates.key("sns", url(number))
            except CertificateError:
                break
    assert len(asked) == sender_certificates.FETCHES_PER_MINUTE
    # What is known already goes on verifying.
    await certificates.key("sns", url(1))


async def test_made_up_certificates_do_not_stop_a_sender() -> None:
    now, is_down = 1_700_000_000.0, False
    asked: list[str] = []

    async def fetch(one: str) -> bytes:
        asked.append(one)
        if one != SNS_URL or is_down:
            raise ValueError
        return CERTIFICATE

    certificates = SenderCertificates(fetch, lambda: now)

    async def flood() -> None:
        for number in range(sender_certificates.REMEMBERED * 2):
            made_up = f"https://sns.us-east-1.amazonaws.com/SimpleNotificationService-{len(asked) + number:032x}.pem"
            with pytest.raises(CertificateError):
                await certificates.key("sns", made_up)

    await certificates.key("sns", SNS_URL)
    for _ in range(4):
        await flood()
        now += 60
    fetched = len(asked)
    await certificates.key("sns", SNS_URL)
    assert len(asked) == fetched
    now += sender_certificates.KEPT_SECONDS
    await flood()
    await certificates.key("sns", SNS_URL)
    assert asked[-1] == SNS_URL
    # One that is gone at the sender's verifies nothing any more.
    now, is_down = now + sender_certificates.KEPT_SECONDS, True
    for _ in range(2):
        with pytest.raises(CertificateError):
            await certificates.key("sns", SNS_URL)


async def test_what_is_fetched_is_small_and_comes_from_no_other_place(aiohttp_server: Any) -> None:
    async def small(_: web.Request) -> web.Response:
        return web.Response(body=b"pem")

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=b"a" * (sender_certificates.MAX_BYTES + 1))

    async def moved(_: web.Request) -> web.Response:
        raise web.HTTPFound("/small")

    application = web.Application()
    application.router.add_get("/small", small)
    application.router.add_get("/large", large)
    application.router.add_get("/moved", moved)
    server = await aiohttp_server(application)
    async with aiohttp.ClientSession() as client:
        fetch = fetch_by(client)
        assert await fetch(str(server.make_url("/small"))) == b"pem"
        for path in ("/large", "/moved", "/absent"):
            with pytest.raises(ValueError, match=r"status|too large"):
                await fetch(str(server.make_url(path)))


@pytest.mark.parametrize(("fails", "status"), [(False, 200), (True, 502)])
async def test_a_subscription_of_the_topic_is_confirmed(fails: bool, status: int) -> None:
    asked: list[str] = []

    async def fetch(url: str) -> bytes:
        asked.append(url)
        if fails:
            raise ValueError
        return b""

    confirming = (
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns&Token=2336"
    )
    body = {"Type": "SubscriptionConfirmation", "SubscribeURL": confirming}
    sender = await SNS.verified()

    async def answered(content: dict[str, str]) -> web.Response | None:
        request = replace(SNS, body=json.dumps(content).encode()).request()
        return await handshakes.answer_of(sender, request, SenderCertificates(fetch))

    answer = await answered(body)
    assert answer is not None
    assert answer.status == status
    assert asked == [confirming]
    hostile = await answered({**body, "SubscribeURL": "https://evil.example/"})
    assert hostile is not None
    assert hostile.status == 502
    assert len(asked) == 1
    assert await answered({"Type": "Notification"}) is None


async def test_an_expired_or_broken_certificate_verifies_nothing() -> None:
    for content, at in (
        (CERTIFICATE, 2_600_000_000.0),
        (b"<html>", 1_700_000_000.0),
        (PUBLIC, 1_700_000_000.0),
    ):

        async def fetch(_: str, content: bytes = content) -> bytes:
            return content

        with pytest.raises(CertificateError, match="not valid"):
            await SenderCertificates(fetch, lambda at=at: at).key("sns", SNS_URL)  # type: ignore[misc]


async def test_messages_of_other_topics_webhooks_and_versions_are_refused() -> None:
    body = json.loads(SNS.body)
    other = credential("arn:aws:sns:us-east-1:999999999999:Theirs", preset="sns")
    with pytest.raises(SignatureError, match="its TopicArn is not the one"):
        await SNS.verified(other)
    for field, value in (
        ("SignatureVersion", "3"),
        ("Type", "Notification\nx"),
        ("SubscribeURL", "https://evil/"),
    ):
        with pytest.raises(SignatureError):
            await SNS.verified(body=json.dumps({**body, field: value}).encode())
    with pytest.raises(SignatureError, match="no signature matches"):
        await vector("paypal").verified(credential("WH-OTHER", preset="paypal"))


async def test_a_second_item_beside_the_signed_one_is_refused() -> None:
    adyen = vector("adyen")
    body = json.loads(adyen.body)
    forged = json.loads(adyen.body)["notificationItems"][0]
    forged["NotificationRequestItem"]["amount"]["value"] = 9_999_999
    for items in ([*body["notificationItems"], forged], [forged], [], "x", [1]):
        with pytest.raises(SignatureError):
            await adyen.verified(body=json.dumps({**body, "notificationItems": items}).encode())
    graph = vector("microsoft-graph")
    for values in (
        [{"clientState": "s3cret"}, {"id": "2"}],
        [{"clientState": "s3cret"}, {"clientState": "x"}],
        [],
    ):
        with pytest.raises(SignatureError):
            await graph.verified(body=json.dumps({"value": values}).encode())


FORM = ("Content-Type", "application/x-www-form-urlencoded")


async def test_hostile_forms_are_refused() -> None:
    twilio, paddle = vector("twilio"), vector("paddle-classic")
    signature = next(pair for pair in twilio.headers if pair[0] == "X-Twilio-Signature")
    for body, kind in (
        (b"a=1&" * 2000, FORM),
        (twilio.body + b"&Digits=9999", FORM),
        (twilio.body.replace(b"Digits=1234&", b"Digits=1234;"), FORM),
        (b"\xff=1", FORM),
        (twilio.body, ("Content-Type", "application/x-www-form-urlencoded; charset=utf-16")),
        # A body that the signature does not cover at all.
        (b'{"Digits": "9999"}', ("Content-Type", "application/json")),
        (b"--x\r\n", ("Content-Type", "multipart/form-data; boundary=x")),
    ):
        with pytest.raises(SignatureError):
            await twilio.verified(body=body, headers=[signature, kind])
    for body in (paddle.body + b"&alert_id=2", paddle.body + b"&p_signature=x", paddle.body + b"&extra=1"):
        with pytest.raises(SignatureError):
            await paddle.verified(body=body)


async def test_a_body_beside_its_hash_is_refused() -> None:
    one = next(each for each in _all("twilio") if "bodySHA256" in each.url)
    for body in (one.body + b" ", b"{}"):
        with pytest.raises(SignatureError, match="is the hash of another body"):
            await one.verified(body=body)


async def test_the_time_has_to_be_among_the_signed_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    one = vector("contentful")
    monkeypatch.setattr("tieline.server.webhook_signatures.time.time", lambda: one.when)
    headers = [
        (name, value.replace(",x-contentful-timestamp", "") if "signed-headers" in name else value)
        for name, value in one.headers
    ]
    with pytest.raises(SignatureError, match="does not list X-Contentful-Timestamp"):
        await one.verified(headers=headers)
    many = [(name, ",".join(["a"] * 40) + ",x-contentful-timestamp") for name, _ in headers[2:3]]
    with pytest.raises(SignatureError):
        await one.verified(headers=[*headers[:2], *many, *headers[3:]])


async def test_small_keys_and_keys_of_other_kinds_are_refused() -> None:
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    elliptic = ec.generate_private_key(ec.SECP384R1()).public_key()
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    with pytest.raises(InvalidCredentialError, match="has 1024 bits; at least 2048"):
        await vector("wise").verified(credential(small.public_bytes(*form).decode(), preset="wise"))
    for key in (elliptic.public_bytes(*form).decode(), "-----BEGIN PUBLIC KEY-----\nx", "{}", "AAAA"):
        with pytest.raises(InvalidCredentialError):
            await vector("wise").verified(credential(key, preset="wise"))


async def test_another_signature_of_the_same_is_a_repeated_request() -> None:
    """ECDSA signatures can be changed without the key: (r, s) and (r, n - s) are both valid."""
    sendgrid = vector("sendgrid")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tieline.server.webhook_signatures.time.time", lambda: sendgrid.when)
        first = await sendgrid.verified()
        headers = [
            (name, _mirrored(value) if name.endswith("Signature") else value)
            for name, value in sendgrid.headers
        ]
        assert (await sendgrid.verified(headers=headers)).delivery_id == first.delivery_id is not None


def _mirrored(text: str) -> str:
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    r, s = decode_dss_signature(base64.b64decode(text))
    return base64.b64encode(encode_dss_signature(r, order - s)).decode()


def test_an_expired_credential_beside_a_valid_one_is_left_out() -> None:
    now = datetime.now(UTC)

    def one(identifier: str, away: timedelta | None, preset: str = "stripe") -> Any:
        body = {**scheme_credential("hmac", {"preset": preset}, value="k"), "id": identifier}
        return parse_credential({**body, "expiresAt": (now + away).isoformat()} if away else body)

    old, new, alone = one("old", timedelta(days=-1)), one("new", None), one("x", timedelta(days=-1), "github")
    assert without_replaced([old, new, alone], now) == [new, alone]
    assert without_replaced([alone], now) == [alone]


def _all(preset: str) -> list[Vector]:
    from tests.unit.runtime.auth.sender_vectors import VECTORS

    return [one for one in VECTORS if one.preset == preset]
