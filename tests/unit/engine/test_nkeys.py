"""Keys and claims as NATS reads them. That a real server takes them is tested in tests/integration/engine."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tieline_core.engine.claims import Permissions, user_jwt
from tieline_protocol.nkeys import InvalidSeedError, KeyKind, KeyPair

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "letter"), [(KeyKind.OPERATOR, "O"), (KeyKind.ACCOUNT, "A"), (KeyKind.USER, "U")]
)
def test_a_key_comes_back_from_its_seed(kind: KeyKind, letter: str) -> None:
    key = KeyPair.generate(kind)
    again = KeyPair.from_seed(key.seed)
    assert (again.kind, again.public_key) == (kind, key.public_key)
    assert key.public_key.startswith(letter)
    assert key.seed.startswith(f"S{letter}")
    assert len(key.public_key) == 56
    assert len(key.seed) == 58


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s[:-1],
        lambda s: "SA" + s[2:],
        lambda s: s[:-2] + ("A" if s[-2] == "7" else "7") + s[-1],
        lambda _: "",
        lambda _: "é",
    ],
)
def test_what_is_no_seed_is_refused_without_showing_it(change: Callable[[str], str]) -> None:
    text = change(KeyPair.generate(KeyKind.USER).seed)
    with pytest.raises(InvalidSeedError) as refused:
        KeyPair.from_seed(text)
    assert not text or text not in str(refused.value)


def test_a_key_does_not_show_its_seed() -> None:
    key = KeyPair.generate(KeyKind.USER)
    assert key.seed not in repr(key)


def test_a_users_claims_carry_its_permissions_and_are_signed() -> None:
    signer, user = KeyPair.generate(KeyKind.ACCOUNT), KeyPair.generate(KeyKind.USER)
    jwt = user_jwt(
        signer,
        user.public_key,
        name="pod",
        account="AACCOUNT",
        at=NOW,
        expires=NOW,
        permissions=Permissions(publish=["ev.>"], subscribe=["_INBOX.e.>"]),
    )
    signed, _, signature = jwt.rpartition(".")
    content = json.loads(_decoded(signed.split(".")[1]))
    assert content["sub"] == user.public_key
    assert content["iss"] == signer.public_key
    assert content["exp"] == int(NOW.timestamp())
    assert content["nats"]["issuer_account"] == "AACCOUNT"
    assert (content["nats"]["pub"], content["nats"]["sub"]) == (
        {"allow": ["ev.>"]},
        {"allow": ["_INBOX.e.>"]},
    )
    raw = base64.b32decode(signer.public_key)[1:33]
    Ed25519PublicKey.from_public_bytes(raw).verify(_decoded(signature), signed.encode())


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
