"""The integration with a fake of the club, and the club's authorisation server itself."""

import asyncio
import base64
import hashlib
import importlib.util
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import encode_basic_auth
from aiohttp.test_utils import TestClient, TestServer

from tieline.testing import Project

VERIFIER = "a-verifier-of-at-least-forty-three-characters-0123"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
CALLBACK = "https://tieline.example/oauth2/callback?app=1"
ASKED = {
    "response_type": "code",
    "client_id": "tieline",
    "redirect_uri": CALLBACK,
    "scope": "profile offline_access",
    "state": "st&te",
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
}
CLIENT = encode_basic_auth("tieline", "s3cret")
Club = TestClient[Any, Any]


def test_a_members_record_is_read_with_the_token(tieline_project: Project) -> None:
    club = tieline_project.connection("club")
    club.on("GET", "/me").answer(200, json={"name": "Ann", "number": "M-001"})
    answer = tieline_project.get("/me")
    assert (answer.status, answer.json()) == (200, {"hello": "Ann", "number": "M-001"})
    (request,) = club.requests
    assert request.headers["Authorization"].startswith("Bearer ")


def _provider() -> ModuleType:
    file = Path(__file__).parents[1] / "provider" / "provider.py"
    spec = importlib.util.spec_from_file_location("club_provider", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _with_club(test: Callable[[Club], Awaitable[None]]) -> None:
    settings = {
        "CLIENT_ID": "tieline",
        "CLIENT_SECRET": "s3cret",
        "REDIRECT_URIS": CALLBACK,
        "MEMBERS": "ann:pw,ben:other",
    }

    async def run() -> None:
        async with TestClient(TestServer(_provider().Club(settings).app())) as client:
            await test(client)

    asyncio.run(run())


async def _sign_in(club: Club, **form: str) -> dict[str, str]:
    """The query that the user comes back with."""
    page = await (await club.get("/authorize", params=ASKED)).text()
    found = re.search(r'name="request" value="([^"]+)"', page)
    assert found is not None
    sent = {"request": found[1], "member": "ann", "password": "pw", "decision": "allow", **form}
    answer = await club.post("/authorize", data=sent, allow_redirects=False)
    assert answer.status == 303, await answer.text()
    query = parse_qs(urlsplit(answer.headers["Location"]).query)
    return {name: values[0] for name, values in query.items()}


async def _token(club: Club, *, status: int = 200, auth: str = CLIENT, **form: str) -> dict[str, Any]:
    answer = await club.post("/token", data=form, headers={"Authorization": auth})
    assert answer.status == status, await answer.text()
    found: dict[str, Any] = await answer.json()
    return found


async def _exchange(club: Club, code: str, *, status: int = 200, **changes: str) -> dict[str, Any]:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
        **changes,
    }
    return await _token(club, status=status, **form)


async def _status_of_me(club: Club, token: str) -> int:
    return (await club.get("/me", headers={"Authorization": f"Bearer {token}"})).status


def test_consent_brings_a_code_and_that_brings_tokens_that_rotate() -> None:
    async def test(club: Club) -> None:
        brought = await _sign_in(club)
        assert (brought["state"], brought["app"]) == ("st&te", "1")
        first = await _exchange(club, brought["code"])
        assert (first["token_type"], first["scope"]) == ("Bearer", "profile offline_access")
        assert await _status_of_me(club, first["access_token"]) == 200
        second = await _token(club, grant_type="refresh_token", refresh_token=first["refresh_token"])
        assert second["refresh_token"] != first["refresh_token"]
        assert await _status_of_me(club, second["access_token"]) == 200
        # Who uses a refresh token twice is not the only one who has it.
        again = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
        assert (await _token(club, status=400, **again))["error"] == "invalid_grant"
        assert await _status_of_me(club, second["access_token"]) == 401

    _with_club(test)


def test_a_code_is_good_once_for_its_verifier_and_address() -> None:
    async def test(club: Club) -> None:
        for changes in ({"code_verifier": "another"}, {"redirect_uri": "https://evil.example/"}):
            code = (await _sign_in(club))["code"]
            assert (await _exchange(club, code, status=400, **changes))["error"] == "invalid_grant"
            await _exchange(club, code, status=400)
        code = (await _sign_in(club))["code"]
        tokens = await _exchange(club, code)
        await _exchange(club, code, status=400)
        assert await _status_of_me(club, tokens["access_token"]) == 401, "its second use ends what it brought"
        stranger = encode_basic_auth("tieline", "guessed")
        form = {"grant_type": "authorization_code", "code": (await _sign_in(club))["code"]}
        assert (await _token(club, status=401, auth=stranger, **form))["error"] == "invalid_client"

    _with_club(test)


def test_nothing_comes_of_no_consent_or_a_wrong_password() -> None:
    async def test(club: Club) -> None:
        assert (await _sign_in(club, decision="deny"))["error"] == "access_denied"
        page = await (await club.get("/authorize", params=ASKED)).text()
        for member, password in (("ann", "other"), ("zoe", ""), ("", "")):
            found = re.search(r'name="request" value="([^"]+)"', page)
            assert found is not None
            form = {"request": found[1], "member": member, "password": password, "decision": "allow"}
            answer = await club.post("/authorize", data=form, allow_redirects=False)
            assert answer.status == 401
            page = await answer.text()
        answer = await club.post("/authorize", data={**form, "decision": "allow"}, allow_redirects=False)
        assert answer.status == 400, "a form is good once"

    _with_club(test)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"redirect_uri": "https://evil.example/"}, None),
        ({"redirect_uri": "http://127.0.0.1:4711@evil.example/"}, None),
        ({"client_id": "another"}, None),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "everything"}, "invalid_scope"),
    ],
)
def test_a_bad_request_is_refused_and_nobody_is_sent_to_strangers(
    changes: dict[str, str], error: str | None
) -> None:
    async def test(club: Club) -> None:
        answer = await club.get("/authorize", params={**ASKED, **changes}, allow_redirects=False)
        if error is None:
            assert answer.status == 400
            assert "Location" not in answer.headers
        else:
            assert parse_qs(urlsplit(answer.headers["Location"]).query)["error"] == [error]

    _with_club(test)


@pytest.mark.parametrize("host", ["127.0.0.1:4711", "[::1]:4711", "localhost:4711"])
def test_native_applications_come_back_to_any_port_of_their_machine(host: str) -> None:
    async def test(club: Club) -> None:
        answer = await club.get("/authorize", params={**ASKED, "redirect_uri": f"http://{host}/back"})
        assert answer.status == 200

    _with_club(test)
