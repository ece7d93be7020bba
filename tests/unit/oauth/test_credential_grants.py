"""A credential of another organisation: used where it is granted, and otherwise as if it did not exist."""

from typing import Any

import pytest

from tests.unit.oauth.memory_lookups import (
    ACME,
    OWNER,
    TOKEN_URL,
    MemoryLookups,
    credential,
    make,
    oauth2,
    system,
)
from tieline_core.credentials.resolver import Resolved, resolve
from tieline_core.identity.ids import object_id

STRANGER = "01CX5ZZKBKACTAV9WEVGEMMVRZ"
SECRET = "the-owners-secret"
OF_THE_OWNER = {"credentialId": "shared", "organisationId": OWNER, "clientId": "app"}

LOGIN = make(
    "Connection",
    "login",
    name="Login",
    systemRef={"name": "shop"},
    credentials=[credential(kind="oauth2-code")],
)
HOLDER = make(
    "Connection",
    "clients",
    namespace="owner",
    name="Clients",
    systemRef={"name": "shop"},
    credentials=[
        credential("client", "oauth2-client", credentialId="shared"),
        credential("other", "oauth2-client", credentialId="kept"),
        credential("login", "basic-auth", "basic", credentialId="password"),
    ],
)
OWNERS_SYSTEM = system(oauth2(), {"id": "basic", "type": "basic-auth"}, namespace="owner")


def grant(
    *, to: str = ACME, connection: str = "clients", credential_id: str = "client", **more: Any
) -> dict[str, Any]:
    item = {"connection": connection, "credentialId": credential_id, **more}
    return make(
        "CredentialGrant", "for-acme", namespace="owner", **{"from": [{"organisationId": to}], "to": [item]}
    )


async def found(
    *objects: dict[str, Any],
    client: dict[str, Any] | None = None,
    variables: dict[str, str] | None = None,
    inputs: list[dict[str, Any]] | None = None,
    **scheme: Any,
) -> Resolved:
    shop = system(oauth2(client=client or OF_THE_OWNER, **scheme))
    shop["spec"] |= {"variables": variables or {}, "inputs": inputs or []}
    cluster = MemoryLookups(shop, LOGIN, HOLDER, OWNERS_SYSTEM, *objects)
    cluster.put_secret("main", code="c0de")
    for name in ("client", "other"):
        cluster.put_secret(name, "owner", clientId="app", clientSecret=SECRET)
    return await resolve(cluster, LOGIN, "main")


async def test_a_granted_credential_is_used() -> None:
    resolved = await found(grant())
    assert resolved.problems == ()
    assert resolved.endpoint is not None
    assert (resolved.endpoint.client_id, resolved.endpoint.client_secret) == ("app", SECRET)


@pytest.mark.parametrize("connection", ["clients", object_id(HOLDER), object_id(HOLDER).lower()])
@pytest.mark.parametrize("credential_id", ["client", "shared"])
async def test_a_grant_names_connection_and_credential_by_name_or_id(
    connection: str, credential_id: str
) -> None:
    assert (await found(grant(connection=connection, credential_id=credential_id))).endpoint is not None


NOT_THERE = [
    pytest.param([], {}, id="no grant"),
    pytest.param([grant(to=STRANGER)], {}, id="a grant for somebody else"),
    pytest.param([grant(credential_id="other")], {}, id="a grant of another credential"),
    pytest.param([grant(connection="nobody")], {}, id="a grant of a connection that is gone"),
    pytest.param([grant()], {"credentialId": "kept"}, id="a credential that is not in the grant"),
    pytest.param([grant()], {"credentialId": "client"}, id="the name that it has inside of its connection"),
    pytest.param([grant()], {"credentialId": "nobody"}, id="a credential that does not exist"),
    pytest.param([grant()], {"organisationId": STRANGER}, id="an organisation that does not exist"),
    pytest.param([grant(credential_id="login")], {"credentialId": "password"}, id="of another type"),
]


@pytest.mark.parametrize(("objects", "changes"), NOT_THERE)
async def test_without_a_grant_the_answer_is_the_one_for_what_does_not_exist(
    objects: list[dict[str, Any]], changes: dict[str, str]
) -> None:
    client = {**OF_THE_OWNER, **changes}
    resolved = await found(*objects, client=client)
    assert resolved.endpoint is None
    (problem,) = resolved.problems
    assert problem.reason == "CredentialNotFound"
    text = problem.message.replace(client["credentialId"], "X").replace(client["organisationId"], "Y")
    assert text == (
        'There is no credential "X" of organisation Y that may be used here; correct the ids, or ask its owner '
        "for a CredentialGrant"
    )


async def test_a_grant_in_the_borrowers_own_namespace_grants_nothing() -> None:
    forged = {**grant(), "metadata": {**grant()["metadata"], "namespace": "acme"}}
    assert (await found(forged)).problems[0].reason == "CredentialNotFound"


async def test_a_namespace_that_claims_the_borrowers_id_borrows_nothing() -> None:
    shop = system(oauth2(client=OF_THE_OWNER), namespace="impostor")
    login = {**LOGIN, "metadata": {**LOGIN["metadata"], "namespace": "impostor"}}
    cluster = MemoryLookups(shop, login, HOLDER, OWNERS_SYSTEM, grant())
    cluster.put_secret("main", "impostor", code="c")
    cluster.put_secret("client", "owner", clientId="app", clientSecret=SECRET)
    cluster.organisation_of = lambda namespace: ACME  # type: ignore[method-assign]
    assert (await resolve(cluster, login, "main")).problems[0].reason == "CredentialNotFound"


async def test_the_secret_goes_to_the_owners_token_url_and_to_no_other() -> None:
    """Whoever borrows writes the scheme: without this they would have the secret sent to themselves."""
    stolen: dict[str, Any]
    for stolen in (
        {"tokenUrl": "https://evil.example/token"},
        {"refreshUrl": "https://evil.example/refresh"},
        {"tokenRequest": {"longLived": {"url": "https://evil.example/long", "grantType": "x"}}},
    ):
        resolved = await found(grant(), **stolen)
        assert resolved.endpoint is None
        assert [problem.reason for problem in resolved.problems] == ["UrlNotGranted"]
        assert SECRET not in str(resolved)


async def test_no_variable_takes_the_secret_out_of_a_granted_domain() -> None:
    granted = grant(tokenUrls=["https://{shop}.shop.example/token", "https://{host}/token"])
    inside = await found(granted, tokenUrl="https://{shop}.shop.example/token", variables={"shop": "eu"})
    assert inside.endpoint is not None
    assert inside.endpoint.token_url == "https://eu.shop.example/token"
    inputs = [{"name": "host", "hosts": ["evil.example"]}]
    outside = await found(
        granted, tokenUrl="https://{host}/token", variables={"host": "evil.example"}, inputs=inputs
    )
    assert outside.endpoint is None
    assert [problem.reason for problem in outside.problems] == ["UrlNotGranted"]


async def test_the_owner_may_say_which_token_urls() -> None:
    url = "https://eu.shop.example/token"
    assert (await found(grant(tokenUrls=[url]), tokenUrl=url)).endpoint is not None
    resolved = await found(grant(tokenUrls=[url]), tokenUrl=TOKEN_URL)
    assert resolved.endpoint is None


async def test_a_grant_that_is_being_deleted_counts_no_more() -> None:
    leaving = grant()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert (await found(leaving)).problems[0].reason == "CredentialNotFound"


async def test_a_grant_that_no_definition_would_let_in_hides_no_other_one() -> None:
    broken = make("CredentialGrant", "broken", namespace="owner", to="everything")
    assert (await found(broken, grant())).endpoint is not None
    assert (await found(broken)).endpoint is None


async def test_ones_own_organisation_needs_no_grant() -> None:
    holder = make(
        "Connection",
        "clients",
        name="Clients",
        systemRef={"name": "shop"},
        credentials=[credential("mine", "oauth2-client", credentialId="shared")],
    )
    shop = system(oauth2(client={**OF_THE_OWNER, "organisationId": ACME}))
    cluster = MemoryLookups(shop, LOGIN, holder)
    cluster.put_secret("main", code="c")
    cluster.put_secret("mine", clientId="app", clientSecret="own")
    resolved = await resolve(cluster, LOGIN, "main")
    assert resolved.endpoint is not None
    assert resolved.endpoint.client_secret == "own"
