"""A connection knows whose account it has: what each entry keeps of the answers of its provider."""

from __future__ import annotations

import json
from typing import Any

import pytest
from yarl import URL

from tests.harness.cluster.kubectl import ROOT
from tests.unit.emulator.providers import asked
from tieline.emulator.provider import Provider
from tieline.emulator.urls import Endpoint as Place
from tieline_catalogue import packing
from tieline_protocol.answer_paths import value_at
from tieline_protocol.oauth.dialect import Dialect
from tieline_protocol.oauth.kept import collect
from tieline_protocol.oauth.token_requests import Endpoint, account_request

CATALOGUE = ROOT / "catalogue"
NO_ACCOUNT = frozenset({"lever", "workable"})
"""Entries whose provider documents no answer that names the account."""


def scheme_of(entry: dict[str, Any]) -> dict[str, Any] | None:
    """The scheme with which people sign in."""
    for one in entry["system"]["authSchemeConfigs"]:
        oauth2 = one.get("oauth2") or {}
        if oauth2.get("grant", {}).get("type") == "authorizationCode":
            found: dict[str, Any] = oauth2
            return found
    return None


ENTRIES = {key: packing.read_entry(CATALOGUE / f"{key}.yaml") for key in packing.keys(CATALOGUE)}
SIGNED_IN = {key: scheme for key, entry in ENTRIES.items() if (scheme := scheme_of(entry)) is not None}


def test_every_entry_keeps_the_account_where_its_provider_says_it() -> None:
    without = {key for key, scheme in SIGNED_IN.items() if "'accountId'" not in repr(scheme)}
    assert without == NO_ACCOUNT


@pytest.mark.parametrize("key", [key for key, scheme in SIGNED_IN.items() if "afterToken" in scheme])
def test_the_provider_says_whose_token_it_is(key: str) -> None:
    provider, scheme = Provider(ENTRIES[key]), SIGNED_IN[key]
    dialect = Dialect.of(scheme, base_url=provider.system["templateBaseUrl"])
    endpoint = Endpoint(
        token_url=scheme["tokenUrl"],
        client_id=provider.client.id,
        client_secret=provider.client.secret,
        dialect=dialect,
        variables=dict(provider.values),
    )
    request = account_request(endpoint, token=provider.sign_in()["accessToken"])
    assert request is not None
    assert dialect.after is not None
    url = URL(Place.of(request.url).filled(provider.values)).with_query(URL(request.url).query)
    content = json.loads(request.body) if request.body else None
    reply = asked(provider, request.method, url, content=content, headers=dict(request.headers))
    assert reply.status == 200, reply.content
    kept = collect(dialect.after.keep, lambda path: value_at(reply.content, path), hosts=dialect.hosts)
    assert kept.account_id
    check = provider.system.get("check") or {}
    if check and scheme["afterToken"]["url"] == f"{provider.system['templateBaseUrl']}{check['path']}":
        assert str((check.get("expect") or {}).get("contains", "")) in reply.body.decode()
    refused = asked(
        provider, request.method, url, content=content, headers={"Authorization": "Bearer another"}
    )
    assert refused.status != 200 or not value_at(refused.content, dialect.after.keep[0].source)
