"""OAuth 2.0 initialise, by REST on a real API server: the URL, and the state that waits for the user."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import PUBLIC_URL, Client, Server
from tests.integration.api.objects import make_system
from tieline_api.authorisation.authorize_url import challenge
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import OAUTH_STATE_TYPE
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.oauth.state_store import OAuthStateStore, PendingAuthorization, StateRefusedError, new_state

pytestmark = pytest.mark.cluster


def _oauth2(*, pkce: bool) -> dict[str, Any]:
    return {
        "type": "oauth2",
        "oauth2": {
            "id": "oauth",
            "tokenUrl": "https://shop.example/token",
            "authorizeUrl": "https://shop.example/authorize",
            "grant": {"type": "authorizationCode", "authorizationCode": {"clientId": "tieline"}},
            "pkce": pkce,
        },
    }


def _body(org: str, **changes: Any) -> dict[str, Any]:
    return {
        "credential": {"id": "cred-1", "organisationId": org},
        "authorizeUrl": "https://shop.example/authorize?tenant=a",
        "clientId": "tieline",
        "scopes": ["orders"],
        **changes,
    }


def _states(kubectl: Kubectl, org: Organisation) -> list[dict[str, Any]]:
    text = kubectl(
        "get",
        "secrets",
        "--field-selector=type=tieline.dev/oauth-state",
        "-o",
        "json",
        namespace=org.namespace,
    ).stdout
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found


def _system_uid(kubectl: Kubectl, org: Organisation, identifier: str) -> dict[str, Any]:
    text = kubectl("get", "system", identifier.lower(), "-o", "json", namespace=org.namespace).stdout
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("pkce", [True, False])
def test_the_url_carries_a_state_that_is_good_once_and_here_only(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path, pkce: bool
) -> None:
    system = make_system(client, [_oauth2(pkce=pkce)])
    answer = client("POST", f"/systems/{system['id']}/oauth2/initialise", _body(org.id))
    assert answer.status == 200, answer.raw
    assert answer.headers["Cache-Control"] == "no-store"
    url = answer.json["url"]
    assert url.startswith("https://shop.example/authorize?tenant=a&response_type=code&client_id=tieline&")
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert query["redirect_uri"] == f"{PUBLIC_URL}/oauth2/callback"
    assert query["scope"] == "orders offline_access"
    assert query["prompt"] == "login"
    assert ("code_challenge" in query) == pkce

    uid = _system_uid(kubectl, org, system["id"])["metadata"]["uid"]
    kept = [one for one in _states(kubectl, org) if one["metadata"]["ownerReferences"][0]["uid"] == uid]
    assert len(kept) == 1
    assert query["state"] not in json.dumps(kept), "who reads Secrets' names must not learn the state"

    async def bind() -> list[PendingAuthorization | BaseException]:
        async with await Kube.connect(kubeconfig=api_kubeconfig) as kube:
            states = OAuthStateStore(kube, seconds=600)
            foreign = query["state"].replace(org.id, new_id())
            tries = [states.bind(foreign, namespace=org.namespace, holder="a")]
            tries += [states.bind(query["state"], namespace=org.namespace, holder=who) for who in "ab"]
            found = await asyncio.gather(*tries, return_exceptions=True)
            again = await states.bind(query["state"], namespace=org.namespace, holder=found_holder(found))
            assert again in found, "its holder may go on with it"
            return list(found)

    def found_holder(found: list[PendingAuthorization | BaseException]) -> str:
        return "a" if isinstance(found[1], PendingAuthorization) else "b"

    foreign, *taken = asyncio.run(bind())
    assert isinstance(foreign, StateRefusedError)
    pending = next(one for one in taken if isinstance(one, PendingAuthorization))
    assert len([one for one in taken if isinstance(one, StateRefusedError)]) == 1, "of two one gets it"
    assert (pending.system_id, pending.credential_id, pending.client_id) == (
        system["id"],
        "cred-1",
        "tieline",
    )
    assert pending.organisation_id == org.id
    assert pending.requested_by.endswith(":admin")
    assert bool(pending.code_verifier) == pkce
    if pkce:
        assert challenge(pending.code_verifier) == query["code_challenge"]


def test_states_expire_and_are_cleaned(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path
) -> None:
    system = _system_uid(kubectl, org, make_system(client)["id"])
    pending = PendingAuthorization(
        organisation_id=org.id,
        system_id="s",
        credential_id="c",
        client_id="i",
        redirect_uri="r",
        requested_by="u",
    )

    async def run() -> None:
        now = datetime.now(UTC)
        async with await Kube.connect(kubeconfig=api_kubeconfig) as kube:
            states = OAuthStateStore(kube, seconds=60, now=lambda: now)
            later = OAuthStateStore(
                kube, seconds=60, kept=lambda: kept, now=lambda: now + timedelta(seconds=61)
            )
            first, second = new_state(org.id), new_state(org.id)
            for state in (first, second):
                await states.remember(state, pending, system=system)
            with pytest.raises(StateRefusedError, match="expired"):
                await later.bind(first, namespace=org.namespace, holder="a")
            kept = await kube.list(SECRETS, org.namespace, field_selector=f"type={OAUTH_STATE_TYPE}")
            assert await later.sweep() >= 1
            with pytest.raises(StateRefusedError, match="not known"):
                await states.bind(second, namespace=org.namespace, holder="a")

    asyncio.run(run())
    uid = system["metadata"]["uid"]
    assert not [one for one in _states(kubectl, org) if one["metadata"]["ownerReferences"][0]["uid"] == uid]


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"additionalParams": "state=x&audience=a&scope=b"}, "additionalParams", "scope, state"),
        ({"authorizeUrl": "https://{shop}.example"}, "authorizeUrl", "leaves the host's domain"),
        ({"scopes": ["a\\b"]}, "scopes", "scope"),
        (
            {"credential": {"id": "c", "organisationId": new_id()}},
            "credential",
            "CredentialGrant",
        ),
        ({"redirectUrl": "https://evil.example/cb"}, "redirectUrl", "TIELINE_REDIRECT_URLS"),
        ({"redirectUrl": "http://127.0.0.1.evil.example:80/"}, "redirectUrl", "TIELINE_REDIRECT_URLS"),
        ({"redirectUrl": "https://localhost:4711/"}, "redirectUrl", "TIELINE_REDIRECT_URLS"),
    ],
)
def test_what_is_refused_names_its_field(
    client: Client, org: Organisation, changes: dict[str, Any], field: str, says: str
) -> None:
    system = make_system(client)
    answer = client("POST", f"/systems/{system['id']}/oauth2/initialise", _body(org.id, **changes))
    assert (answer.status, answer.fields) == (422, [field])
    assert says in answer.json["message"]


def test_a_native_application_is_returned_to_on_its_own_machine(client: Client, org: Organisation) -> None:
    system = make_system(client)
    for back in ("http://127.0.0.1:51004/cb?a=1", "http://[::1]:51004/", "http://localhost:8080/x"):
        answer = client.ok(
            "POST", f"/systems/{system['id']}/oauth2/initialise", _body(org.id, redirectUrl=back)
        )
        assert parse_qs(urlsplit(answer["url"]).query)["redirect_uri"] == [back]


def test_without_a_public_url_it_says_what_to_set(
    client: Client, org: Organisation, api_kubeconfig: Path
) -> None:
    system = make_system(client)
    with Server(api_kubeconfig, public_api_url="") as server:
        other = Client(server.url, client.token, org.id)
        answer = other("POST", f"/systems/{system['id']}/oauth2/initialise", _body(org.id))
        assert (answer.status, answer.json["code"]) == (503, "not_configured")
        assert "TIELINE_PUBLIC_API_URL" in answer.json["message"]
