"""The file of issuers and their key sets: what may be in them, and how they change."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.harness.session.waiting import until
from tests.unit.api.auth.jwt_issuers import ISSUER, OTHER, RSA, IssuerSetup, jwk, token
from tieline_api.auth import jwts
from tieline_api.auth.issuers import Issuer, IssuersError, IssuersFile, parse
from tieline_api.auth.jwks import JwksCache, KeysUnavailableError
from tieline_api.auth.jwts import JwtAuthenticator
from tieline_api.errors import ApiError


async def test_keys_may_be_in_a_file(tmp_path: Path) -> None:
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [jwk(RSA, "one")]}))
    file = tmp_path / "issuers.json"
    file.write_text(json.dumps([{"issuer": ISSUER, "jwksFile": str(keys), "audiences": ["tieline"]}]))
    issuers = IssuersFile(str(file))
    assert issuers.read()
    assert not issuers.read(), "nothing changed"
    assert await JwtAuthenticator(issuers, JwksCache()).authenticate(token()) is not None


async def test_of_several_issuers_each_speaks_with_its_own_keys_audience_and_names(tmp_path: Path) -> None:
    second, told = "https://id.example", []
    for name, private in (("one", RSA), ("two", OTHER)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"keys": [jwk(private, "key")]}))
    for issuer, name, audience in ((ISSUER, "one", "tieline"), (second, "two", "portal")):
        told.append(
            {
                "issuer": issuer,
                "jwksFile": str(tmp_path / f"{name}.json"),
                "audiences": [audience],
                "prefix": f"{name}:",
            }
        )
    file = tmp_path / "issuers.json"
    file.write_text(json.dumps(told))
    issuers = IssuersFile(str(file))
    issuers.read()
    authenticator = JwtAuthenticator(issuers, JwksCache())

    async def username(token: str) -> str | None:
        try:
            caller = await authenticator.authenticate(token)
        except ApiError:
            return None
        return caller.username if caller else None

    assert await username(token(kid="key")) == "one:ann"
    assert await username(token(OTHER, kid="key", iss=second, aud="portal")) == "two:ann"
    assert await username(token(OTHER, kid="key")) is None, "the other issuer's key"
    assert await username(token(OTHER, kid="key", iss=second)) is None, "the other issuer's audience"


async def test_issuers_and_keys_of_a_config_map_rotate_without_a_restart(tmp_path: Path) -> None:
    """The kubelet swaps a link to a new folder; files never change in place."""

    def publish(version: str, key: Any) -> None:
        folder = tmp_path / version
        folder.mkdir()
        (folder / "keys.json").write_text(json.dumps({"keys": [jwk(key, version)]}))
        issuer = {"issuer": ISSUER, "jwksFile": str(tmp_path / "keys.json"), "audiences": [version]}
        (folder / "issuers.json").write_text(json.dumps([issuer]))
        (tmp_path / "..new").symlink_to(version)
        (tmp_path / "..new").rename(tmp_path / "..data")

    publish("one", RSA)
    for name in ("keys.json", "issuers.json"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    issuers, clock = IssuersFile(str(tmp_path / "issuers.json")), [1000.0]
    issuers.read()
    authenticator = JwtAuthenticator(issuers, JwksCache(clock=lambda: clock[0]), clock=lambda: clock[0])
    assert await authenticator.authenticate(token(kid="one", aud="one")) is not None
    publish("two", OTHER)
    clock[0] += 11  # keys are not read again at once for each unknown id
    assert issuers.read()
    assert await authenticator.authenticate(token(OTHER, kid="two", aud="two")) is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[{issuer: a, jwksUrl: 'https://x'}]", "audiences"),
        ("[{issuer: a, audiences: [b]}]", "jwksUrl and jwksFile"),
        ("[{issuer: a, audiences: [b], jwksUrl: 'https://x', jwksFile: /y}]", "jwksUrl and jwksFile"),
        ("[{issuer: a, audiences: [], jwksUrl: 'https://x'}]", "audiences"),
        ("[{issuer: a, audiences: [b], jwksUrl: 'file:///etc/passwd'}]", "jwksUrl"),
        ("[{issuer: a, audiences: [b], jwksUrl: 'https://x', prefix: 'system:'}]", "prefix"),
        ("[{issuer: a, audiences: [b], jwksUrl: 'https://x', audience: c}]", "audience"),
        ("[{issuer: a, audiences: [b], jwksFile: /x}, {issuer: a, audiences: [b], jwksFile: /x}]", "twice"),
        ("[", "no YAML"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(text: str, says: str) -> None:
    with pytest.raises(IssuersError, match=says):
        parse(text.encode())


async def test_a_change_that_cannot_be_used_leaves_the_issuers_in_place(tmp_path: Path) -> None:
    setup = IssuerSetup(tmp_path)
    issuers = IssuersFile(str(setup.path))
    issuers.read()
    setup.path.write_text("[")
    with pytest.raises(IssuersError):
        issuers.read()
    assert issuers.get(ISSUER) is not None


@pytest.mark.parametrize(
    ("status", "size", "good"), [(200, 0, True), (302, 0, False), (500, 0, False), (200, 600_000, False)]
)
async def test_a_key_set_is_read_over_http_whole_or_not_at_all(
    aiohttp_server: Any, status: int, size: int, good: bool
) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        headers = {"Location": "/elsewhere"} if status == 302 else {}
        text = json.dumps({"keys": [jwk(RSA, "one")], "padding": "x" * size})
        return web.Response(status=status, text=text, headers=headers)

    app = web.Application()
    app.router.add_get("/{path}", answer)
    server = await aiohttp_server(app)
    issuer = Issuer(issuer=ISSUER, jwksUrl=str(server.make_url("/keys")), audiences=("a",))
    keys = JwksCache()
    if good:
        assert await keys.key(issuer, "one") is not None
    else:
        with pytest.raises(KeysUnavailableError):
            await keys.key(issuer, "one")
    assert asked == ["/keys"], "redirects are not followed"


async def test_a_changed_file_counts_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    setup = IssuerSetup(tmp_path)
    caplog.set_level(logging.INFO)
    assert await setup.status(token()) == 200
    monkeypatch.setattr(jwts, "WATCH_SECONDS", 0.01)
    following = asyncio.create_task(setup.authenticator.keep_reading())

    def replace(text: str) -> None:
        """At once, as the kubelet does: a file that is half written would be another change."""
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(setup.path)

    replace("[")
    await until(lambda: "The issuers stay as they were" in caplog.text)
    assert await setup.status(token()) == 200, "what cannot be used changes nothing"
    replace(json.dumps([{**setup.issuer, "audiences": ["others"]}]))
    await until(lambda: "The issuers have changed" in caplog.text)
    assert await setup.status(token()) == 401
    following.cancel()
