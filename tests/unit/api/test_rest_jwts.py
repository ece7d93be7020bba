"""JWTs of configured issuers: which are good, whom they name, and how keys rotate."""

import asyncio
import base64
import json
import logging
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from aiohttp.http_exceptions import InvalidHeader
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tests.harness.waiting import until
from tieline_api.auth import jwts
from tieline_api.auth.issuers import Issuer, IssuersError, IssuersFile, parse
from tieline_api.auth.jwts import JwtAuthenticator, caller_of
from tieline_api.auth.key_sets import KeySets, KeysUnavailableError, parse_keys
from tieline_api.errors import ApiError
from tieline_api.service.logs import JsonLines, without_input

ISSUER = "https://login.example"
ORGANISATION = "01JD3Y000000000000000000RG"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _jwk(private: Any, kid: str, **more: Any) -> dict[str, Any]:
    algorithm = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    kind = next(made for known, made in algorithm.items() if isinstance(private, known))
    return {**kind.to_jwk(private.public_key(), as_dict=True), "kid": kid, **more}  # type: ignore[attr-defined]


class World:
    """A file of issuers, and a server of keys that can rotate and go away."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.path = folder / "issuers.yaml"
        self.issuer = {
            "issuer": ISSUER,
            "jwksUrl": f"{ISSUER}/keys",
            "audiences": ["tieline"],
            "organisationsClaim": "orgs",
            **changes,
        }
        self.path.write_text(json.dumps([self.issuer]))
        self.keys = [_jwk(RSA, "one")]
        self.away = False
        self.loads = 0
        self.clock = 1000.0
        issuers = IssuersFile(str(self.path))
        issuers.read()
        self.sets = KeySets(load=self._load, clock=lambda: self.clock)
        self.authenticator = JwtAuthenticator(issuers, self.sets, clock=lambda: self.clock)

    async def _load(self, _issuer: Issuer) -> bytes:
        self.loads += 1
        if self.away:
            raise OSError("down")
        return json.dumps({"keys": self.keys}).encode()

    async def status(self, token: str) -> int:
        """200, or the error's status; 0 when the token is left to others."""
        try:
            return 200 if await self.authenticator.authenticate(token) else 0
        except ApiError as error:
            return error.status


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def _token(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "one", **claims: Any) -> str:
    payload = {
        "iss": ISSUER,
        "aud": "tieline",
        "sub": "ann",
        "exp": time.time() + 600,
        "groups": ["staff"],
        "orgs": [ORGANISATION.lower()],
        **claims,
    }
    payload = {name: value for name, value in payload.items() if value is not None}
    return jwt.encode(payload, key, algorithm=algorithm, headers={"kid": kid} if kid else {})


async def test_a_good_token_names_user_and_groups_with_the_issuer_before_them(world: World) -> None:
    caller = await world.authenticator.authenticate(_token())
    assert caller is not None
    assert caller.username == f"{ISSUER}#ann"
    assert caller.groups == (f"{ISSUER}#staff", "system:authenticated")
    assert caller.organisations == {ORGANISATION}


async def test_no_issuer_can_make_members_of_kubernetes_own_groups(world: World) -> None:
    caller = await world.authenticator.authenticate(_token(sub="system:admin", groups=["system:masters"]))
    assert caller is not None
    assert not caller.username.startswith("system:")
    assert "system:masters" not in caller.groups


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"aud": "others"}, 401),
        ({"aud": ["others", "tieline"]}, 200),
        ({"aud": None}, 401),
        ({"exp": None}, 401),
        ({"exp": timedelta(seconds=-30)}, 200),
        ({"exp": timedelta(seconds=-90)}, 401),
        ({"nbf": timedelta(seconds=30)}, 200),
        ({"nbf": timedelta(seconds=120)}, 401),
        ({"sub": None}, 401),
        ({"sub": ""}, 401),
        ({"sub": 5}, 401),
        ({"iss": "https://other.example"}, 0),
        ({"groups": "staff"}, 200),
        ({"groups": {"a": 1}}, 200),
    ],
)
async def test_claims_decide(world: World, claims: dict[str, Any], status: int) -> None:
    # From now on: the table is made long before this runs.
    told = {k: time.time() + v.total_seconds() if isinstance(v, timedelta) else v for k, v in claims.items()}
    assert await world.status(_token(**told)) == status


async def test_another_key_under_the_same_id_is_refused(world: World) -> None:
    assert await world.status(_token(OTHER)) == 401


def _raw(header: dict[str, Any], payload: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(payload).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


CLAIMS = {"iss": ISSUER, "aud": "tieline", "sub": "ann", "exp": time.time() + 600}


@pytest.mark.parametrize("word", ["none", "None", "NONE", ""])
async def test_a_token_without_a_signature_is_refused(world: World, word: str) -> None:
    assert await world.status(_raw({"alg": word, "kid": "one"}, CLAIMS)) == 401
    assert await world.status(_raw({"alg": word}, CLAIMS)) == 401


@pytest.mark.parametrize("encoding", [serialization.Encoding.PEM, serialization.Encoding.DER])
async def test_the_public_key_is_no_hmac_secret(world: World, encoding: serialization.Encoding) -> None:
    import hashlib
    import hmac

    secret = RSA.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    for name in ("sha256", "sha384", "sha512"):
        unsigned = _raw({"alg": f"HS{name[3:]}", "kid": "one"}, CLAIMS).rpartition(".")[0]
        signature = hmac.new(secret, unsigned.encode(), getattr(hashlib, name)).digest()
        text = base64.urlsafe_b64encode(signature).decode().rstrip("=")
        assert await world.status(f"{unsigned}.{text}") == 401


async def test_symmetric_keys_of_a_set_are_not_used(world: World) -> None:
    secret = b"x" * 64
    world.keys = [{"kty": "oct", "kid": "one", "k": base64.urlsafe_b64encode(secret).decode().rstrip("=")}]
    with pytest.raises(ApiError) as refused:
        await world.authenticator.authenticate(_token(secret, "HS256"))
    assert refused.value.status == 503
    assert parse_keys(json.dumps({"keys": world.keys}).encode()) == {}


@pytest.mark.parametrize(
    ("private", "declared", "algorithm", "status"),
    [
        (RSA, None, "RS512", 200),
        (RSA, "RS256", "RS256", 200),
        (RSA, "RS256", "RS512", 401),
        (RSA, "RS256", "PS256", 401),
        (ec.generate_private_key(ec.SECP256R1()), None, "ES256", 200),
        (ec.generate_private_key(ec.SECP521R1()), None, "ES512", 200),
        (ed25519.Ed25519PrivateKey.generate(), None, "EdDSA", 200),
    ],
)
async def test_the_key_fixes_the_algorithm(
    world: World, private: Any, declared: str | None, algorithm: str, status: int
) -> None:
    world.keys = [_jwk(private, "one", **({"alg": declared} if declared else {}))]
    assert await world.status(_token(private, algorithm)) == status


async def test_keys_for_encryption_are_not_used(world: World) -> None:
    world.keys = [_jwk(RSA, "one", use="enc"), _jwk(OTHER, "two")]
    assert await world.status(_token()) == 401


async def test_a_token_without_a_key_id_needs_a_set_of_one_key(world: World) -> None:
    assert await world.status(_token(kid=None)) == 200
    world.keys = [_jwk(RSA, "one"), _jwk(OTHER, "two")]
    world.clock += 1000
    assert await world.status(_token(kid=None, jti="2")) == 401


async def test_a_new_key_is_found_without_a_restart_and_made_up_ids_cause_no_storm(world: World) -> None:
    assert await world.status(_token()) == 200
    world.keys = [_jwk(RSA, "one"), _jwk(OTHER, "two")]
    world.clock += 11
    assert await world.status(_token(OTHER, kid="two")) == 200
    assert world.loads == 2
    for number in range(20):
        assert await world.status(_token(OTHER, kid=f"made-up-{number}")) == 401
    assert world.loads == 2, "within ten seconds the set is not read again"


async def test_while_the_issuer_is_away_known_keys_go_on_and_unknown_issuers_are_503(world: World) -> None:
    assert await world.status(_token()) == 200
    world.away = True
    world.clock += 1000
    assert await world.status(_token(jti="2")) == 200
    fresh = KeySets(load=world._load, clock=lambda: world.clock)
    with pytest.raises(KeysUnavailableError):
        await fresh.key(parse(world.path.read_bytes())[ISSUER], "one")


async def test_a_checked_token_is_kept_until_it_expires(world: World) -> None:
    token = _token(exp=time.time() + 60)
    assert await world.status(token) == 200
    world.keys, world.away = [], True
    world.sets.forget()
    world.clock += 100
    assert await world.status(token) == 200, "kept: its keys are not asked for"
    world.clock += 100
    assert await world.status(token) == 503, "expired here: it is checked again"


def test_names_are_those_of_the_configured_claims() -> None:
    issuer = Issuer(
        issuer=ISSUER,
        jwksFile="/keys",  # type: ignore[arg-type]
        audiences=("a",),
        usernameClaim="email",
        groupsClaim="roles",
        prefix="corp:",
    )
    caller = caller_of({"email": "ann@x", "roles": ["dev"], "orgs": ["x"]}, issuer)
    assert caller is not None
    assert (caller.username, caller.groups) == ("corp:ann@x", ("corp:dev", "system:authenticated"))
    assert caller.organisations is None


async def test_keys_may_be_in_a_file(tmp_path: Path) -> None:
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [_jwk(RSA, "one")]}))
    file = tmp_path / "issuers.json"
    file.write_text(json.dumps([{"issuer": ISSUER, "jwksFile": str(keys), "audiences": ["tieline"]}]))
    issuers = IssuersFile(str(file))
    assert issuers.read()
    assert not issuers.read(), "nothing changed"
    assert await JwtAuthenticator(issuers, KeySets()).authenticate(_token()) is not None


async def test_of_several_issuers_each_speaks_with_its_own_keys_audience_and_names(tmp_path: Path) -> None:
    second, told = "https://id.example", []
    for name, private in (("one", RSA), ("two", OTHER)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"keys": [_jwk(private, "key")]}))
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
    authenticator = JwtAuthenticator(issuers, KeySets())

    async def username(token: str) -> str | None:
        try:
            caller = await authenticator.authenticate(token)
        except ApiError:
            return None
        return caller.username if caller else None

    assert await username(_token(kid="key")) == "one:ann"
    assert await username(_token(OTHER, kid="key", iss=second, aud="portal")) == "two:ann"
    assert await username(_token(OTHER, kid="key")) is None, "the other issuer's key"
    assert await username(_token(OTHER, kid="key", iss=second)) is None, "the other issuer's audience"


async def test_issuers_and_keys_of_a_config_map_rotate_without_a_restart(tmp_path: Path) -> None:
    """The kubelet swaps a link to a new folder; files never change in place."""

    def publish(version: str, key: Any) -> None:
        folder = tmp_path / version
        folder.mkdir()
        (folder / "keys.json").write_text(json.dumps({"keys": [_jwk(key, version)]}))
        issuer = {"issuer": ISSUER, "jwksFile": str(tmp_path / "keys.json"), "audiences": [version]}
        (folder / "issuers.json").write_text(json.dumps([issuer]))
        (tmp_path / "..new").symlink_to(version)
        (tmp_path / "..new").rename(tmp_path / "..data")

    publish("one", RSA)
    for name in ("keys.json", "issuers.json"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    issuers, clock = IssuersFile(str(tmp_path / "issuers.json")), [1000.0]
    issuers.read()
    authenticator = JwtAuthenticator(issuers, KeySets(clock=lambda: clock[0]), clock=lambda: clock[0])
    assert await authenticator.authenticate(_token(kid="one", aud="one")) is not None
    publish("two", OTHER)
    clock[0] += 11  # keys are not read again at once for each unknown id
    assert issuers.read()
    assert await authenticator.authenticate(_token(OTHER, kid="two", aud="two")) is not None


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
    world = World(tmp_path)
    issuers = IssuersFile(str(world.path))
    issuers.read()
    world.path.write_text("[")
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
        text = json.dumps({"keys": [_jwk(RSA, "one")], "padding": "x" * size})
        return web.Response(status=status, text=text, headers=headers)

    app = web.Application()
    app.router.add_get("/{path}", answer)
    server = await aiohttp_server(app)
    issuer = Issuer(issuer=ISSUER, jwksUrl=str(server.make_url("/keys")), audiences=("a",))
    keys = KeySets()
    if good:
        assert await keys.key(issuer, "one") is not None
    else:
        with pytest.raises(KeysUnavailableError):
            await keys.key(issuer, "one")
    assert asked == ["/keys"], "redirects are not followed"


async def test_a_changed_file_counts_without_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert await world.status(_token()) == 200
    monkeypatch.setattr(jwts, "WATCH_SECONDS", 0.01)
    following = asyncio.create_task(world.authenticator.keep_reading())
    world.path.write_text("[")
    await until(lambda: "The issuers stay as they were" in caplog.text)
    assert await world.status(_token()) == 200, "what cannot be used changes nothing"
    world.path.write_text(json.dumps([{**world.issuer, "audiences": ["others"]}]))
    await until(lambda: "The issuers have changed" in caplog.text)
    assert await world.status(_token()) == 401
    following.cancel()


def test_complaints_about_malformed_requests_do_not_repeat_them() -> None:
    try:
        raise InvalidHeader("Authorization: Bearer s3cr3t")
    except InvalidHeader:
        record = logging.LogRecord("aiohttp.server", logging.ERROR, "", 0, "Error", (), sys.exc_info())
    assert without_input(record)
    assert "s3cr3t" not in JsonLines().format(record)
    assert record.levelname == "INFO"
