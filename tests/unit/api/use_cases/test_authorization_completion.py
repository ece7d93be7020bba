"""The callback page's requests need no sign-in: they tell nobody which organisations there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.oauth.memory_kube import MemoryKube
from tests.unit.oauth.memory_lookups import make, oauth2, system
from tieline_api.cluster.organisations import Organisation
from tieline_api.errors import ApiError
from tieline_api.schemas.credential_data import CredentialData, OAuth1Data, OAuth2CodeData
from tieline_api.use_cases.authorization_completion import abandon, brought_back, changed_variables, complete
from tieline_core.credentials.resolver import callback_parameters
from tieline_core.identity.ids import new_id
from tieline_core.kubernetes import Forbidden, Resource
from tieline_core.oauth.state_store import OAuthStateStore, PendingAuthorization, new_state

THEIRS = new_id()


class Kube(MemoryKube):
    """Says in which namespaces it was asked; ``confined`` to the one organisation that is served."""

    def __init__(self, *, confined: bool) -> None:
        super().__init__()
        self._confined = confined
        self.asked: list[str] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        self.asked.append(namespace or "")
        if self._confined and namespace != "acme":
            raise Forbidden("no", status=403)
        return await super().get(resource, name, namespace)


def _platform(kube: Kube) -> Any:
    def organisation(identifier: str) -> Organisation | None:
        return Organisation(id=identifier, namespace="acme") if identifier == THEIRS else None

    cluster = SimpleNamespace(require_sync=lambda: None, organisation=organisation)
    return SimpleNamespace(cluster=cluster, oauth_states=OAuthStateStore(kube, seconds=60))  # type: ignore[arg-type]


@pytest.mark.parametrize("confined", [False, True], ids=["the whole cluster", "one organisation"])
async def test_a_made_up_state_is_answered_alike_whether_there_is_the_organisation(confined: bool) -> None:
    told, asked = [], []
    for identifier in (THEIRS, new_id()):
        kube = Kube(confined=confined)
        state = new_state(identifier)
        brought = CredentialData(oauth2_code=OAuth2CodeData(code="c", state=state))
        with pytest.raises(ApiError) as caught:
            await complete(_platform(kube), state=state, credential_data=brought)
        await abandon(_platform(kube), state)
        told.append((caught.value.status, caught.value.body()))
        asked.append(len(kube.asked))
        assert all(kube.asked), "each in a namespace"
    assert told[0] == told[1]
    assert told[0][0] == 422
    assert asked == [2, 2]


KEEP = [{"parameter": "realmId", "variable": "realm"}]


@pytest.mark.parametrize(
    ("dialect", "code", "query", "brought"),
    [
        ({}, "c", "", {"code": "c", "state": "s"}),
        ({}, "", "?code=c&state=s&realmId=7", {"code": "c", "state": "s"}),
        ({"codeParameter": "auth_code"}, "", "?auth_code=c&state=s", {"code": "c", "state": "s"}),
        ({"codeParameter": "auth_code"}, "", "?state=s", None),
        (
            {"keep": KEEP},
            "c",
            "?code=c&realmId=7",
            {"code": "c", "state": "s", "callback": "?code=c&realmId=7"},
        ),
        (
            {"callbackSignature": {"parameter": "hmac"}},
            "c",
            "?code=c&hmac=0",
            {"code": "c", "state": "s", "callback": "?code=c&hmac=0"},
        ),
        ({"errorParameters": ["denied"]}, "", "?state=s&denied=1", None),
        ({"errorParameters": ["denied"]}, "c", "?code=c&denied=1", None),
        ({}, "c", "?code=c&error=access_denied", None),
        ({}, "", "?state=s&oauth_token=t&oauth_verifier=", None),
    ],
)
def test_the_scheme_says_how_a_callback_is_read(
    dialect: dict[str, Any], code: str, query: str, brought: dict[str, str] | None
) -> None:
    given = CredentialData(oauth2_code=OAuth2CodeData(code=code, state="s")) if code else None
    found = brought_back(dialect, given, callback_parameters(query), query=query, state="s")
    data = found.oauth2_code.model_dump(exclude_none=True) if found and found.oauth2_code else None
    assert data == brought


def test_a_verifier_is_no_code() -> None:
    given = CredentialData(oauth1=OAuth1Data(state="s", oauth_token="t", oauth_verifier="v"))
    query = "?oauth_token=t&oauth_verifier=v"
    assert brought_back({}, given, callback_parameters(query), query=query, state="s") is given


SHOP = {
    "templateBaseUrl": "https://{shop}.shop.example/{version}",
    "inputs": [{"name": "shop"}],
    "variables": {"version": "v1"},
}


@pytest.mark.parametrize(
    ("begun", "own", "changed"),
    [
        ({"shop": "new", "version": "v1"}, {"shop": "old"}, {"shop": "new"}),
        ({"shop": "new", "version": "v2"}, {"other": "x"}, {"other": "x", "shop": "new", "version": "v2"}),
        ({"shop": "old", "version": "v1"}, {"shop": "old"}, None),
        ({}, {"shop": "old"}, None),
    ],
)
def test_a_default_of_the_system_stays_out_of_the_connection(
    begun: dict[str, str], own: dict[str, str], changed: dict[str, str] | None
) -> None:
    pending = SimpleNamespace(values_begun_with=lambda: begun)
    found = changed_variables(pending, {"spec": {"variables": own}}, {"spec": SHOP})  # type: ignore[arg-type]
    assert (None if found is None else {one.name: one.value for one in found}) == changed


DENYING = {"authorization": {"errorParameters": ["denied"], "codeParameter": "auth_code"}}


async def _answer_without_connection(query: str, code: str = "") -> int:
    """The status for an authorisation whose connection is not known here."""
    platform, state = _platform(Kube(confined=False)), new_state(THEIRS)
    platform.cluster.systems = None
    platform.cluster.find = lambda *_: system(oauth2(**DENYING))
    pending = PendingAuthorization(
        organisation_id=THEIRS,
        system_id=new_id(),
        credential_id=new_id(),
        credential_organisation_id=THEIRS,
        client_id="app",
        redirect_uri="https://tieline.example/oauth2/callback",
        requested_by="ann",
    )
    await platform.oauth_states.remember(state, pending, system=make("System", "shop"))
    brought = CredentialData(oauth2_code=OAuth2CodeData(code=code, state=state)) if code else None
    try:
        finished = await complete(platform, state=state, credential_data=brought, query=query)
    except ApiError as error:
        return error.status
    assert finished is None
    return 204


@pytest.mark.parametrize(
    ("query", "code", "status"),
    [
        ("?denied=1", "", 204),
        ("?error=access_denied", "", 204),
        ("?state=s", "", 204),
        ("?code=c", "c", 409),
        ("?auth_code=c", "", 409),
        ("&".join(["a=1"] * 100), "c", 422),
    ],
)
async def test_a_denial_is_one_without_a_connection_too(query: str, code: str, status: int) -> None:
    assert await _answer_without_connection(query, code) == status
