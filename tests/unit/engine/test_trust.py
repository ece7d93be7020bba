"""The engine's keys in a Secret, and users that are signed with them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tieline_core.engine.streams import StreamLimits, account_limits
from tieline_core.engine.trust import EngineTrust, InvalidTrustError, new_encryption_key
from tieline_engine.credentials import Credentials, InvalidCredentialsError
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.nkeys import KeyKind, KeyPair

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def _values(trust: EngineTrust) -> dict[str, bytes]:
    return {name: seed.encode() for name, seed in trust.to_values().items()}


def test_the_keys_come_back_from_their_secret() -> None:
    trust = EngineTrust()
    again = EngineTrust.from_values(_values(trust))
    assert again.to_values() == trust.to_values()
    assert again.accounts(NOW) == trust.accounts(NOW)
    assert len(set(trust.to_values().values())) == 5


def test_a_secret_of_before_has_a_key_for_the_api_that_stays_the_same() -> None:
    values = _values(EngineTrust())
    del values["api-seed"]
    first, second = EngineTrust.from_values(values), EngineTrust.from_values(values)
    assert first.api.seed == second.api.seed
    assert first.api.seed.encode() not in values.values()


def test_accounts_of_environments_follow_from_names_and_differ() -> None:
    trust, organisation, environment = (
        EngineTrust(),
        "01M8743MD3AGAY7RWRREVWA5PY",
        "01M8743MD3AGAY7RWRREVWA5PZ",
    )
    streams = EventStreams(organisation, environment)
    accounts = {
        trust.environment_account(streams),
        trust.environment_account(EventStreams(environment, organisation)),
        EngineTrust().environment_account(streams),
        trust.account.public_key,
    }
    assert len(accounts) == 4
    assert all(re.fullmatch(r"A[A-Z2-7]{55}", account) for account in accounts)
    assert trust.environment_account(streams) == trust.environment_account(
        EventStreams(organisation, environment)
    )


def test_what_an_account_says_has_the_same_fingerprint_whenever_it_is_signed() -> None:
    trust, streams = EngineTrust(), EventStreams("01M8743MD3AGAY7RWRREVWA5PY", "01M8743MD3AGAY7RWRREVWA5PZ")
    limits = account_limits(StreamLimits())
    shown = trust.environment_fingerprint(streams, limits)
    assert shown == trust.environment_fingerprint(streams, limits)
    assert shown != trust.environment_fingerprint(streams, account_limits(StreamLimits(queue_bytes=1)))
    assert shown != trust.environment_fingerprint(
        streams, limits, previous_signers=[trust.account.public_key]
    )
    assert shown != replace(trust, api=EngineTrust().api).environment_fingerprint(streams, limits)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda values: values.pop("signer-seed"), "signer-seed is missing"),
        (lambda values: values.update({"account-seed": b"SAsecret"}), "account-seed is no seed"),
        (lambda values: values.update({"system-seed": b"\xff\xfe"}), "system-seed is no seed"),
        (
            lambda values: values.update({"signer-seed": KeyPair.generate(KeyKind.USER).seed.encode()}),
            "signer-seed is a seed of another kind",
        ),
    ],
)
def test_a_secret_that_does_not_hold_the_keys_is_refused_by_name(
    change: Callable[[dict[str, bytes]], object], problem: str
) -> None:
    values = _values(EngineTrust())
    change(values)
    with pytest.raises(InvalidTrustError, match=problem) as refused:
        EngineTrust.from_values(values)
    assert not any(value.decode("latin-1") in str(refused.value) for value in values.values())


def test_pods_get_a_key_of_their_own_with_the_rights_of_their_environment() -> None:
    trust, streams = EngineTrust(), EventStreams("01M8743MD3AGAY7RWRREVWA5PY", "01M8743MD3AGAY7RWRREVWA5PZ")
    text = trust.pod_credentials(streams, at=NOW, expires=NOW + timedelta(days=1))
    user = Credentials.parse(text)
    claims = json.loads(base64.urlsafe_b64decode(user.jwt.split(".")[1] + "=="))
    assert claims["sub"] == user.key.public_key
    assert claims["iss"] == trust.signer.public_key
    assert claims["nats"]["issuer_account"] == trust.environment_account(streams)
    assert claims["exp"] == int((NOW + timedelta(days=1)).timestamp())
    assert claims["nats"]["sub"]["allow"] == [
        "_INBOX.01M8743MD3AGAY7RWRREVWA5PY.01M8743MD3AGAY7RWRREVWA5PZ.>",
        "control.01M8743MD3AGAY7RWRREVWA5PY.01M8743MD3AGAY7RWRREVWA5PZ.cancel",
    ]
    assert all("01M8743MD3AGAY7RWRREVWA5PZ" in subject for subject in claims["nats"]["pub"]["allow"])
    assert trust.pod_credentials(streams, at=NOW, expires=NOW) != text


@pytest.mark.parametrize("text", ["", "-----BEGIN NATS USER JWT-----\nx", "secret"])
def test_what_is_no_credentials_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidCredentialsError):
        Credentials.parse(text)


def test_neither_trust_nor_credentials_show_a_seed() -> None:
    trust = EngineTrust()
    user = Credentials.parse(trust.credentials("one", at=NOW))
    shown = f"{trust!r} {user!r}"
    assert user.key.seed not in shown
    assert not any(seed in shown for seed in trust.to_values().values())


def test_encryption_keys_differ_and_have_256_bits() -> None:
    assert len({new_encryption_key() for _ in range(10)}) == 10
    assert len(bytes.fromhex(new_encryption_key())) == 32
