"""The storm on a token of a real Keycloak, which takes all tokens away from who uses one twice."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.harness.identity.keycloak import Application, Keycloak, Person
from tests.integration.oauth.storms import CALLS, Provider, Storm
from tieline_core.kubernetes import Kube

pytestmark = pytest.mark.cluster

ROUNDS = 10


def refresh_token(keycloak: Keycloak, application: Application, person: Person) -> str:
    """One that the person has been given some other way."""
    form = {
        "grant_type": "password",
        "client_id": application.id,
        "username": person.name,
        "password": person.password,
    }
    with urllib.request.urlopen(keycloak.token_url, data=urlencode(form).encode(), timeout=30) as answer:
        return str(json.load(answer)["refresh_token"])


@pytest.fixture
def application(keycloak: Keycloak) -> Application:
    return keycloak.register_for_passwords(publicClient=True)


@pytest.fixture
async def storm(
    kubeconfig: Path, namespace: str, keycloak: Keycloak, application: Application
) -> AsyncIterator[Storm]:
    token = await asyncio.to_thread(refresh_token, keycloak, application, keycloak.person())
    provider = Provider(url=keycloak.token_url, client_id=application.id, good=token)
    async with (
        await Kube.connect(kubeconfig=str(kubeconfig)) as kube,
        Storm(kube, kubeconfig, namespace, provider, claim=60) as made,
    ):
        yield made


async def test_two_hundred_calls_of_four_processes_use_each_refresh_token_once(
    storm: Storm, keycloak: Keycloak, application: Application
) -> None:
    seen = set()
    for number in range(ROUNDS):
        if number:
            await storm.let_expire()
        got = await storm.wanted_by(storm.workers)
        assert list(got.values()) == [4 * CALLS], got
        assert not any(name.endswith("Error") for name in got), got
        seen |= got.keys()
        assert len(keycloak.events("REFRESH_TOKEN", application)) == number + 1
    assert len(seen) == ROUNDS
    assert keycloak.events("REFRESH_TOKEN_ERROR", application) == []
