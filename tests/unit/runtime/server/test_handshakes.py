"""Handshakes of senders, and requests that a webhook exempts from its connection's credentials."""

import base64
import hmac
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.unit.runtime.external_systems import scheme_credential
from tests.unit.testing.written_projects import folder
from tieline import Integration
from tieline.testing import Project

CODE = """
@integration.webhook("hook", connection="sender", methods={methods}, unauthenticated={exempt}, delivery="{delivery}")
async def hook(ctx: Context, request: Request) -> str:
    ctx.log.info("Ran", method=request.method)
    return "ran " + request.query.get("challenge", "")
"""
Serve = Callable[..., Project]
SUBSCRIBE = "/hook?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="
VERIFY_TOKEN = scheme_credential("secret", {"name": "hub.verify_token", "in": "query"}, value="meatyhamhock")


def signing(preset: str) -> dict[str, Any]:
    return scheme_credential("hmac", {"preset": preset}, value="k3y")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(
            *credentials: dict[str, Any],
            methods: tuple[str, ...] = ("POST",),
            exempt: tuple[str, ...] = (),
            delivery: str = "direct",
        ) -> Project:
            code = CODE.format(methods=methods, exempt=exempt, delivery=delivery)
            project = stack.enter_context(Project(folder(tmp_path, code)))
            project.connection("sender", credentials=list(credentials))
            return project

        yield start


def ran(project: Project) -> int:
    return sum(entry.message == "Ran" for entry in project.logs)


@pytest.mark.parametrize("delivery", ["direct", "queued"])
def test_slacks_challenge_is_answered_once_it_is_verified(serve: Serve, delivery: str) -> None:
    project = serve(signing("slack"), delivery=delivery)
    challenge = {
        "type": "url_verification",
        "token": "x",
        "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7",
    }
    answer = project.post("/hook", json=challenge, caller="sender")
    assert (answer.status, answer.text) == (200, challenge["challenge"])
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    refused = project.post("/hook", json=challenge)
    assert refused.status == 401
    assert challenge["challenge"] not in refused.text
    project.run_events()
    assert ran(project) == 0
    for other in (
        {"type": "event_callback", "text": "url_verification"},
        {"type": "url_verification"},
        ["url_verification"],
    ):
        assert project.post("/hook", json=other, caller="sender").status == (200)
    project.run_events()
    assert ran(project) == 3


def test_a_challenge_with_half_a_character_is_answered_all_the_same(serve: Serve) -> None:
    project = serve(signing("slack"))
    answer = project.post(
        "/hook", json={"type": "url_verification", "challenge": "a\ud800b"}, caller="sender"
    )
    assert (answer.status, answer.text) == (200, "a?b")


def test_only_slack_has_slacks_challenge(serve: Serve) -> None:
    project = serve(signing("github"))
    challenge = {"type": "url_verification", "challenge": "x"}
    assert project.post("/hook", json=challenge, caller="sender").text == "ran "


@pytest.mark.parametrize("delivery", ["direct", "queued"])
@pytest.mark.parametrize("methods", [("POST",), ("GET", "POST")])
def test_metas_subscription_is_answered_with_the_verify_token(
    serve: Serve, methods: tuple[str, ...], delivery: str
) -> None:
    project = serve(signing("meta"), VERIFY_TOKEN, methods=methods, delivery=delivery)
    answer = project.get(SUBSCRIBE + "meatyhamhock")
    assert (answer.status, answer.text) == (200, "1158201444")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for wrong in (SUBSCRIBE, SUBSCRIBE + "other", "/hook?hub.mode=subscribe"):
        assert project.get(wrong).status == 401
    # Without the mode it is a request like others, and the token is no signature.
    assert project.get("/hook?hub.verify_token=meatyhamhock").status == (401 if "GET" in methods else 405)
    assert project.post("/hook?hub.mode=subscribe&hub.verify_token=meatyhamhock", json={}).status == 401
    assert ran(project) == 0


def test_metas_notifications_need_the_signature_and_not_the_token(serve: Serve) -> None:
    project = serve(signing("meta"), VERIFY_TOKEN)
    signer = scheme_credential("hmac", {"preset": "meta"}, value="k3y")
    project.connection("signs", credentials=[signer])
    assert project.post("/hook", json={"object": "page"}, caller="signs").text == "ran "
    assert project.post("/hook", json={"object": "page"}).status == 401


def test_both_verify_tokens_hold_while_one_is_rotated(serve: Serve) -> None:
    signer = signing("meta")
    project = serve(
        signer,
        {**VERIFY_TOKEN, "expiresAt": "2999-01-01T00:00:00Z"},
        {**VERIFY_TOKEN, "id": "new", "data": {"value": "fresh"}},
        {**VERIFY_TOKEN, "id": "gone", "data": {"value": "stale"}, "expiresAt": "2001-01-01T00:00:00Z"},
    )
    project.connection("signs", credentials=[signer])
    assert [project.get(SUBSCRIBE + token).status for token in ("meatyhamhock", "fresh", "stale")] == [
        200,
        200,
        401,
    ]
    assert project.post("/hook", json={"object": "page"}, caller="signs").text == "ran "
    project.connection("sender", credentials=[signer, {**VERIFY_TOKEN, "expiresAt": "2001-01-01T00:00:00Z"}])
    assert project.get(SUBSCRIBE + "meatyhamhock").status == 401
    assert project.post("/hook", json={"object": "page"}, caller="signs").text == "ran "


@pytest.mark.parametrize("credentials", [(signing("meta"),), (signing("github"), VERIFY_TOKEN), ()])
def test_without_a_verify_token_nobody_is_answered(serve: Serve, credentials: Any) -> None:
    project = serve(*credentials)
    is_meta = credentials == (signing("meta"),)
    assert project.get(SUBSCRIBE + "meatyhamhock").status == (401 if is_meta else 405)
    assert ran(project) == 0


def signed(project: Project, preset: str, body: str, **headers: str) -> Any:
    """A POST request with the sender's signature."""
    project.connection("signs", credentials=[signing(preset)])
    sent = {"Content-Type": "application/json", **headers}
    return project.post("/hook", data=body.encode(), headers=sent, caller="signs")


def mac(text: str, encode: Callable[[bytes], str] = bytes.hex) -> str:
    return encode(hmac.new(b"k3y", text.encode(), "sha256").digest())


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


# preset, body, headers of the request; status and body of the answer
SIGNED: dict[str, tuple[str, dict[str, str], int, str]] = {
    "zoom": (
        '{"event": "endpoint.url_validation", "payload": {"plainToken": "qgg8vlvZRS6UYooatFL8Aw"}}',
        {},
        200,
        '{"plainToken": "qgg8vlvZRS6UYooatFL8Aw", "encryptedToken": "' + mac("qgg8vlvZRS6UYooatFL8Aw") + '"}',
    ),
    "twitch": (
        '{"challenge": "pogchamp-kappa"}',
        {"Twitch-Eventsub-Message-Type": "webhook_callback_verification"},
        200,
        "pogchamp-kappa",
    ),
    "xero": ('{"events": [], "firstEventSequence": 0, "lastEventSequence": 0}', {}, 200, ""),
    "front": ('{"type": "sync"}', {"X-Front-Challenge": "abc"}, 200, "abc"),
}


@pytest.mark.parametrize("preset", SIGNED)
def test_signed_challenges_are_answered_and_others_run(serve: Serve, preset: str) -> None:
    body, headers, status, text = SIGNED[preset]
    project = serve(signing(preset), delivery="queued")
    answer = signed(project, preset, body, **headers)
    assert (answer.status, answer.text) == (status, text)
    refused = project.post(
        "/hook", data=body.encode(), headers={"Content-Type": "application/json", **headers}
    )
    assert refused.status == 401
    assert text not in refused.text or preset == "xero"
    assert signed(project, preset, '{"event": "other"}').status in (200, 202)
    project.run_events()
    assert ran(project) == 1


# preset: method, path and query, headers, body; status, body and headers of the answer
UNSIGNED: dict[str, tuple[str, str, dict[str, str], bytes, str, dict[str, str]]] = {
    "dropbox": ("GET", "?challenge=abc", {}, b"", "abc", {}),
    "nylas": ("GET", "?challenge=abc", {}, b"", "abc", {}),
    "microsoft-graph": ("POST", "?validationToken=a%20b%3Cp%3E", {}, b"", "a b<p>", {}),
    "x": ("GET", "?crc_token=abc", {}, b"", '{"response_token": "sha256=' + mac("abc", in_base64) + '"}', {}),
    "okta": ("GET", "", {"X-Okta-Verification-Challenge": "abc"}, b"", '{"verification": "abc"}', {}),
    "asana": ("POST", "", {"X-Hook-Secret": "b537"}, b"", "", {"X-Hook-Secret": "b537"}),
    "smartsheet": (
        "POST",
        "",
        {"Smartsheet-Hook-Challenge": "d7"},
        b"{}",
        '{"smartsheetHookResponse": "d7"}',
        {},
    ),
    "monday": ("POST", "", {}, b'{"challenge": "3e"}', '{"challenge": "3e"}', {}),
    "notion": ("POST", "", {}, b'{"verification_token": "k3y"}', "", {}),
    "trello": ("HEAD", "", {}, b"", "", {}),
    "mailchimp": ("GET", "?secret=k3y", {}, b"", "", {}),
    "woocommerce": (
        "POST",
        "",
        {"Content-Type": "application/x-www-form-urlencoded"},
        b"webhook_id=7",
        "",
        {},
    ),
}


@pytest.mark.parametrize("preset", UNSIGNED)
def test_challenges_that_nothing_signs_are_answered(serve: Serve, preset: str) -> None:
    method, query, headers, body, text, sent = UNSIGNED[preset]
    project = serve(signing(preset))
    kind = {} if "Content-Type" in headers or not body else {"Content-Type": "application/json"}
    answer = project.request(method, f"/hook{query}", data=body, headers={**kind, **headers})
    assert (answer.status, answer.text) == (200, text)
    assert {name: answer.headers[name] for name in sent} == sent
    if text:
        assert answer.headers["Content-Type"].partition(";")[0] in ("text/plain", "application/json")
    # Without the challenge it is an unsigned request as all others.
    assert project.post("/hook", json={"other": 1}).status == 401
    assert ran(project) == 0


HOSTILE = [
    ("dropbox", "GET", "?challenge=" + "a" * 5000, {}, b""),
    ("dropbox", "GET", "?challenge=a&challenge=b", {}, b""),
    # Its signature would be that of a webhook's body.
    ("x", "GET", "?crc_token=%7B%22for_user_id%22%3A1%7D", {}, b""),
    ("x", "GET", "?crc_token=" + "a" * 300, {}, b""),
    ("asana", "POST", "", {"X-Hook-Secret": "a" * 600}, b""),
    ("notion", "POST", "", {}, b'{"verification_token": "other"}'),
    ("notion", "POST", "", {}, b'{"verification_token": ""}'),
    ("mailchimp", "GET", "?secret=other", {}, b""),
    ("monday", "POST", "", {}, b'{"challenge": {"a": 1}}'),
    ("monday", "POST", "", {}, b'{"challenge": "a", "challenge": "b"}'),
    ("monday", "POST", "", {}, b'{"challenge": "%s"}' % (b"a" * 20_000)),
    ("monday", "POST", "", {}, b"[" * 50_000),
    ("woocommerce", "POST", "", {"Content-Type": "application/x-www-form-urlencoded"}, b"webhook_id=7&a=1"),
    ("woocommerce", "POST", "", {"Content-Type": "application/x-www-form-urlencoded"}, b"a=1&" * 2000),
    ("zoom", "POST", "", {}, b'{"event": "endpoint.url_validation", "payload": {"plainToken": "a"}}'),
]


@pytest.mark.parametrize(("preset", "method", "query", "headers", "body"), HOSTILE)
def test_hostile_challenges_are_refused(
    serve: Serve, preset: str, method: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    project = serve(signing(preset))
    kind = {} if "Content-Type" in headers else {"Content-Type": "application/json"}
    answer = project.request(method, f"/hook{query}", data=body, headers={**kind, **headers})
    assert answer.status in (400, 401, 405)
    assert "k3y" not in answer.text
    assert "X-Hook-Secret" not in answer.headers
    assert ran(project) == 0


def test_an_echoed_challenge_is_no_page(serve: Serve) -> None:
    answer = serve(signing("dropbox")).get("/hook?challenge=%3Cscript%3Ealert(1)%3C/script%3E")
    assert answer.text == "<script>alert(1)</script>"
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_discords_ping_is_answered_with_json(serve: Serve) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    project = serve(scheme_credential("hmac", {"preset": "discord"}, value=raw.hex()), delivery="queued")
    for body, status, text in ((b'{"type": 1}', 200, '{"type": 1}'), (b'{"type": 2}', 204, "")):
        at = str(int(project.now()))
        headers = {
            "Content-Type": "application/json",
            "X-Signature-Timestamp": at,
            "X-Signature-Ed25519": key.sign(at.encode() + body).hex(),
        }
        answer = project.post("/hook", data=body, headers=headers)
        assert (answer.status, answer.text) == (status, text)
        assert project.post("/hook", data=body + b" ", headers=headers).status == 401
    project.run_events()
    assert ran(project) == 1


def test_a_systems_own_challenge_is_answered(serve: Serve) -> None:
    options = {
        "name": "X-Acme-Signature",
        "in": "header",
        "algorithm": "sha256",
        "digestInputs": ["body"],
        "challenges": [
            {
                "method": "PUT",
                "when": ["body:event=url_check"],
                "value": "body:data.token",
                "contentType": "application/json",
                "body": '{"token": "{challenge}", "signed": "{hmac}"}',
            }
        ],
    }
    own = scheme_credential("hmac", options, value="k3y")
    project = serve(own)
    project.connection("signs", credentials=[own])
    body = {"event": "url_check", "data": {"token": "t-1"}}
    answer = project.put("/hook", json=body, caller="signs")
    assert answer.json() == {"token": "t-1", "signed": mac("t-1")}
    assert project.put("/hook", json=body).status == 401
    assert project.put("/hook", json={"event": "other"}, caller="signs").status == 405


@pytest.mark.parametrize(
    ("preset", "options", "status", "text"),
    [
        ("xero", {}, 200, ""),
        ("stripe", {}, 202, None),
        ("stripe", {"answer": {"status": 204}}, 204, ""),
        ("slack", {"answer": {"status": 200, "body": "ok"}}, 200, "ok"),
        ("adyen-platform", {}, 200, "[accepted]"),
    ],
)
def test_a_queued_webhook_answers_what_its_sender_expects(
    serve: Serve, preset: str, options: dict[str, Any], status: int, text: str | None
) -> None:
    own = scheme_credential("hmac", {"preset": preset, **options}, value="c0ffee")
    project = serve(own, delivery="queued")
    project.connection("signs", credentials=[own])
    for _ in range(2):  # the second one is a repeated request
        answer = project.post("/hook", json={"id": 1}, caller="signs")
        assert answer.status == status
        assert answer.text == text or text is None


def test_xero_gets_exactly_401_and_nothing_else(serve: Serve) -> None:
    project = serve(signing("xero"), delivery="queued")
    answer = project.post("/hook", json={"events": []}, headers={"X-Xero-Signature": "AAAA"})
    assert (answer.status, answer.text) == (401, "")


def test_a_refusal_does_not_reveal_which_users_exist(serve: Serve) -> None:
    project = serve(signing("github"))
    project.connection("sender", user="ann", credentials=[signing("xero")])
    known, unknown = (project.post("/hook", json={}, user=user) for user in ("ann", "nobody"))
    assert known.status == unknown.status == 401
    assert {**known.json(), "executionId": ""} == {**unknown.json(), "executionId": ""}


@pytest.mark.parametrize(
    ("preset", "body"),
    [
        ("aircall", '{"token": "\\ud800"}'),
        ("mailgun", '{"signature": {"token": "\\ud800", "timestamp": "%d", "signature": "00"}}'),
        ("notion", '{"verification_token": "\\ud800"}'),
    ],
)
def test_text_that_is_not_unicode_proves_nothing(serve: Serve, preset: str, body: str) -> None:
    project = serve(signing(preset))
    content = body % int(project.now()) if "%d" in body else body
    answer = project.post("/hook", data=content, headers={"Content-Type": "application/json"})
    assert answer.status == 401


def test_a_callers_shared_value_is_shown(serve: Serve) -> None:
    project = serve(signing("gitlab"))
    assert project.post("/hook", json={}, caller="sender").text == "ran "
    assert project.post("/hook", json={}).status == 401


@pytest.mark.parametrize("delivery", ["direct", "queued"])
def test_methods_that_are_exempt_reach_the_code_and_are_answered_directly(
    serve: Serve, delivery: str
) -> None:
    project = serve(signing("github"), methods=("GET", "POST"), exempt=("GET",), delivery=delivery)
    assert project.get("/hook?challenge=abc").text == "ran abc"
    assert project.post("/hook", json={}).status == 401
    assert ran(project) == 1


def test_no_unsigned_request_reaches_the_code_otherwise(serve: Serve) -> None:
    project = serve(signing("github"), methods=("GET", "POST"))
    assert project.get("/hook?challenge=abc").status == 401
    assert project.request("HEAD", "/hook").status == 405
    assert ran(project) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"unauthenticated": ["GET"], "methods": ["GET"]},
        {"unauthenticated": ["GET"], "connection": "sender"},
    ],
)
def test_exemptions_that_exempt_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="unauthenticated needs a connection"):
        Integration().webhook("hook", **options)
