"""Connections that hold authorisations of one account are told so, where the provider keeps few."""

import json
from base64 import b64encode
from typing import Any

import pytest

from tieline_core.credentials.shared_accounts import account_in, sharing_warning
from tieline_core.credentials.validation.secret_facts import tokens_of
from tieline_core.oauth import token_secret_codec as codec
from tieline_core.resources.auth_schemes import AuthSchemeConfig


def secret(account: str = "T1", *, asked_as: str = "client", **notes: str) -> dict[str, Any]:
    kept = {"accountId": account} if account else {"accountName": "Acme"}
    data = {"accessToken": "at", "kept": json.dumps(kept)}
    return {
        "metadata": {"annotations": {codec.ASKED_AS: asked_as, **notes}},
        "data": {name: b64encode(value.encode()).decode() for name, value in data.items()},
    }


def scheme(most: int | None) -> AuthSchemeConfig:
    authorization = {"grantsPerAccount": most} if most else {}
    oauth2 = {
        "tokenUrl": "https://a.example/token",
        "grant": {"type": "authorizationCode", "authorizationCode": {}},
    }
    return AuthSchemeConfig.model_validate(
        {"id": "oauth", "type": "oauth2", "oauth2": {**oauth2, "authorization": authorization}}
    )


def test_an_account_is_known_by_its_client_and_id() -> None:
    assert account_in(secret()) == account_in(secret())
    assert len({account_in(one) for one in (secret(), secret("T2"), secret(asked_as="another"))}) == 3
    assert "T1" not in account_in(secret())


@pytest.mark.parametrize(
    "unknown",
    [
        secret(""),
        secret(asked_as=""),
        secret(**{codec.REFUSED: "mark:invalid_grant"}),
        {"metadata": {}, "data": {}},
        {**secret(), "data": {"kept": secret()["data"]["kept"]}},
    ],
)
def test_what_is_not_known_or_ended_is_no_account(unknown: dict[str, Any]) -> None:
    assert account_in(unknown) == ""


def test_tokens_of_another_tenant_are_of_no_account() -> None:
    facts = tokens_of(secret())
    assert facts.account == account_in(secret())
    assert facts.seen_from("another").account == ""


@pytest.mark.parametrize(
    ("most", "holders", "said"),
    [
        (None, 50, None),
        (1, 0, None),
        (1, 1, None),
        (1, 2, "2 connections hold authorisations of this account, and the provider keeps 1 authorisation,"),
        (20, 19, None),
        (20, 20, "as many as the provider keeps. One more ends the oldest"),
        (20, 21, "the provider keeps 20 authorisations, so the oldest end"),
    ],
)
def test_the_warning_comes_before_the_provider_ends_one(
    most: int | None, holders: int, said: str | None
) -> None:
    found = sharing_warning(scheme(most), holders)
    assert (found is None) == (said is None)
    assert said is None or said in str(found)


def test_other_schemes_have_no_warning() -> None:
    key = {"id": "key", "type": "api-key", "apiKey": {"name": "X-Key", "in": "header"}}
    assert sharing_warning(AuthSchemeConfig.model_validate(key), 9) is None
    assert sharing_warning(None, 9) is None
