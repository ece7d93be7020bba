"""Handshakes of senders, and requests that a webhook exempts from its connection's credentials."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

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
        assert project.post("/hook", json=other, caller="sender").status == (
            202 if delivery == "queued" else 200
        )
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


@pytest.mark.parametrize("credentials", [(signing("meta"),), (signing("github"), VERIFY_TOKEN), ()])
def test_without_a_verify_token_nobody_is_answered(serve: Serve, credentials: Any) -> None:
    project = serve(*credentials)
    assert project.get(SUBSCRIBE + "meatyhamhock").status == 401
    assert ran(project) == 0


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
