"""Users of environments' accounts: signed with a key from a file; secrets stay secret."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from tieline_api.engine.credentials import USER_LIFETIME, EnvironmentSigner
from tieline_core.engine.trust import AccountSigner, EngineTrust
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.nkeys import KeyKind, KeyPair

STREAMS = EventStreams(new_id(), new_id())
TRUST = EngineTrust()


def signer(folder: Path, credentials: str, seed: str) -> EnvironmentSigner:
    (folder / "creds").write_text(credentials)
    (folder / "seed").write_text(seed)
    return EnvironmentSigner(folder / "creds", folder / "seed")


def claims(jwt: str) -> dict[str, Any]:
    payload = jwt.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


@pytest.mark.parametrize("issuer", [TRUST.signer, TRUST.account], ids=["signing key", "account's own key"])
def test_a_user_is_of_the_environments_account_and_expires(tmp_path: Path, issuer: KeyPair) -> None:
    now = datetime.now(UTC)
    platform = AccountSigner(TRUST.account.public_key, issuer)
    user = signer(tmp_path, platform.credentials("platform", at=now), f"{TRUST.api.seed}\n").user_of(STREAMS)
    found = claims(user.jwt)
    assert found["nats"]["issuer_account"] == TRUST.environment_account(STREAMS)
    assert found["iss"] == TRUST.api.public_key
    assert found["sub"] == user.key.public_key
    assert abs(found["exp"] - (now + USER_LIFETIME).timestamp()) < 10
    # What it may do the account says, so the user says nothing of it.
    assert set(found["nats"]) == {"type", "version", "issuer_account"}


@pytest.mark.parametrize(
    "seed", ["", "abcdefgh", KeyPair.generate(KeyKind.USER).seed, TRUST.api.seed[:-1], "é"]
)
def test_a_file_without_a_usable_seed_is_named_and_not_repeated(tmp_path: Path, seed: str) -> None:
    credentials = TRUST.credentials("platform", at=datetime.now(UTC))
    with pytest.raises(nats.errors.Error) as refused:
        signer(tmp_path, credentials, seed).user_of(STREAMS)
    assert str(tmp_path / "seed") in str(refused.value)
    assert not seed or seed not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("jwt", ["x.y.z", "x", "a.e30.b", "a.bnVsbA.b", "a.eyJuYXRzIjoxfQ.b"])
def test_credentials_of_no_account_are_refused(tmp_path: Path, jwt: str) -> None:
    text = f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
    seed = KeyPair.generate(KeyKind.USER).seed
    text += f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    with pytest.raises(nats.errors.Error, match="names no account") as refused:
        signer(tmp_path, text, TRUST.api.seed).user_of(STREAMS)
    assert seed not in str(refused.value)
