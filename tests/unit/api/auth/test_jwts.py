"""JWTs of configured issuers: which are good, and whom they name."""

import base64
import json
import logging
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.http_exceptions import InvalidHeader
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tests.unit.api.auth.jwt_issuers import ISSUER, ORGANISATION, OTHER, RSA, IssuerSetup, jwk, token
from tieline_api.auth.issuers import Issuer, parse
from tieline_api.auth.jwks import JwksCache, KeysUnavailableError, parse_keys
from tieline_api.auth.jwts import caller_of
from tieline_api.errors import ApiError
from tieline_api.server.json_logging import without_input
from tieline_core.json_logging import JsonFormatter


@pytest.fixture
def setup(tmp_path: Path) -> IssuerSetup:
    return IssuerSetup(tmp_path)


async def test_a_good_token_names_user_and_groups_with_the_issuer_before_them(setup: IssuerSetup) -> None:
    caller = await setup.authenticator.authenticate(token())
    assert caller is not None
    assert caller.username == f"{ISSUER}#ann"
    assert caller.groups == (f"{ISSUER}#staff", "system:authenticated")
    assert caller.organisations == {ORGANISATION}


async def test_no_issuer_can_make_members_of_kubernetes_own_groups(setup: IssuerSetup) -> None:
    caller = await setup.authenticator.authenticate(token(sub="system:admin", groups=["system:masters"]))
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
async def test_claims_decide(setup: IssuerSetup, claims: dict[str, Any], status: int) -> None:
    # From now on: the table is made long before this runs.
    told = {k: time.time() + v.total_seconds() if isinstance(v, timedelta) else v for k, v in claims.items()}
    assert await setup.status(token(**told)) == status


async def test_another_key_under_the_same_id_is_refused(setup: IssuerSetup) -> None:
    assert await setup.status(token(OTHER)) == 401


def _raw(header: dict[str, Any], payload: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(payload).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


CLAIMS = {"iss": ISSUER, "aud": "tieline", "sub": "ann", "exp": time.time() + 600}


@pytest.mark.parametrize("word", ["none", "None", "NONE", ""])
async def test_a_token_without_a_signature_is_refused(setup: IssuerSetup, word: str) -> None:
    assert await setup.status(_raw({"alg": word, "kid": "one"}, CLAIMS)) == 401
    assert await setup.status(_raw({"alg": word}, CLAIMS)) == 401


@pytest.mark.parametrize("encoding", [serialization.Encoding.PEM, serialization.Encoding.DER])
async def test_the_public_key_is_no_hmac_secret(setup: IssuerSetup, encoding: serialization.Encoding) -> None:
    import hashlib
    import hmac

    secret = RSA.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    for name in ("sha256", "sha384", "sha512"):
        unsigned = _raw({"alg": f"HS{name[3:]}", "kid": "one"}, CLAIMS).rpartition(".")[0]
        signature = hmac.new(secret, unsigned.encode(), getattr(hashlib, name)).digest()
        text = base64.urlsafe_b64encode(signature).decode().rstrip("=")
        assert await setup.status(f"{unsigned}.{text}") == 401


async def test_symmetric_keys_of_a_set_are_not_used(setup: IssuerSetup) -> None:
    secret = b"x" * 64
    setup.keys = [{"kty": "oct", "kid": "one", "k": base64.urlsafe_b64encode(secret).decode().rstrip("=")}]
    with pytest.raises(ApiError) as refused:
        await setup.authenticator.authenticate(token(secret, "HS256"))
    assert refused.value.status == 503
    assert parse_keys(json.dumps({"keys": setup.keys}).encode()) == {}


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
    setup: IssuerSetup, private: Any, declared: str | None, algorithm: str, status: int
) -> None:
    setup.keys = [jwk(private, "one", **({"alg": declared} if declared else {}))]
    assert await setup.status(token(private, algorithm)) == status


async def test_keys_for_encryption_are_not_used(setup: IssuerSetup) -> None:
    setup.keys = [jwk(RSA, "one", use="enc"), jwk(OTHER, "two")]
    assert await setup.status(token()) == 401


async def test_a_token_without_a_key_id_needs_a_set_of_one_key(setup: IssuerSetup) -> None:
    assert await setup.status(token(kid=None)) == 200
    setup.keys = [jwk(RSA, "one"), jwk(OTHER, "two")]
    setup.clock += 1000
    assert await setup.status(token(kid=None, jti="2")) == 401


async def test_a_new_key_is_found_without_a_restart_and_made_up_ids_cause_no_storm(
    setup: IssuerSetup,
) -> None:
    assert await setup.status(token()) == 200
    setup.keys = [jwk(RSA, "one"), jwk(OTHER, "two")]
    setup.clock += 11
    assert await setup.status(token(OTHER, kid="two")) == 200
    assert setup.loads == 2
    for number in range(20):
        assert await setup.status(token(OTHER, kid=f"made-up-{number}")) == 401
    assert setup.loads == 2, "within ten seconds the set is not read again"


async def test_while_the_issuer_is_away_known_keys_go_on_and_unknown_issuers_are_503(
    setup: IssuerSetup,
) -> None:
    assert await setup.status(token()) == 200
    setup.away = True
    setup.clock += 1000
    assert await setup.status(token(jti="2")) == 200
    fresh = JwksCache(load=setup._load, clock=lambda: setup.clock)
    with pytest.raises(KeysUnavailableError):
        await fresh.key(parse(setup.path.read_bytes())[ISSUER], "one")


async def test_a_checked_token_is_kept_until_it_expires(setup: IssuerSetup) -> None:
    kept = token(exp=time.time() + 60)
    assert await setup.status(kept) == 200
    setup.keys, setup.away = [], True
    setup.sets.forget()
    setup.clock += 100
    assert await setup.status(kept) == 200, "kept: its keys are not asked for"
    setup.clock += 100
    assert await setup.status(kept) == 503, "expired here: it is checked again"


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


def test_complaints_about_malformed_requests_do_not_repeat_them() -> None:
    try:
        raise InvalidHeader("Authorization: Bearer s3cr3t")
    except InvalidHeader:
        record = logging.LogRecord("aiohttp.server", logging.ERROR, "", 0, "Error", (), sys.exc_info())
    assert without_input(record)
    assert "s3cr3t" not in JsonFormatter().format(record)
    assert record.levelname == "INFO"
