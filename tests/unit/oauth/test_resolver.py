"""From a connection's credential to the token request it stands for."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.oauth.memory_lookups import TOKEN_URL, MemoryLookups, credential, make, oauth2, system
from tieline_core.credentials.resolver import Grant, Resolved, resolve
from tieline_core.oauth.token_secret_codec import StoredTokens
from tieline_core.resources.auth_schemes import OAuth2Client
from tieline_core.systems import filled
from tieline_protocol.oauth.kept import NOTHING, Kept
from tieline_protocol.oauth.token_client import Tokens

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def connection(*credentials: dict[str, Any], **more: Any) -> dict[str, Any]:
    return make(
        "Connection", "login", name="Login", systemRef={"name": "shop"}, credentials=list(credentials), **more
    )


def reasons(resolved: Resolved) -> list[str]:
    return [problem.reason for problem in resolved.problems]


async def test_a_code_is_exchanged_as_the_schemes_client_with_the_secret_of_the_system() -> None:
    scheme = oauth2(
        pkce=True,
        refreshUrl="https://login.shop.example/refresh",
        additionalTokenParams="audience=shop",
        clientAuthentication="body",
        client={"clientId": "app", "secretRef": {"name": "app"}},
    )
    shop, login = system(scheme), connection(credential(kind="oauth2-code"))
    cluster = MemoryLookups(shop, login)
    cluster.put_secret("main", code="c0de", state="st")
    cluster.put_secret("app", clientSecret="s3cret")
    found = await resolve(cluster, login, "main")
    assert found.problems == ()
    assert (found.grant, found.pkce) == (Grant.AUTHORIZATION_CODE, True)
    assert found.inputs == {"code": "c0de", "state": "st"}
    endpoint = found.endpoint
    assert endpoint is not None
    assert (endpoint.token_url, endpoint.refresh_url) == (TOKEN_URL, "https://login.shop.example/refresh")
    assert (endpoint.client_id, endpoint.client_secret) == ("app", "s3cret")
    assert (endpoint.authentication, endpoint.additional_params) == ("body", "audience=shop")
    assert "s3cret" not in repr(found)
    assert "c0de" not in repr(found)


async def test_a_public_client_needs_no_secret() -> None:
    login = connection(credential(kind="oauth2-code"))
    cluster = MemoryLookups(system(oauth2(pkce=True)), login)
    cluster.put_secret("main", code="c0de")
    found = await resolve(cluster, login, "main")
    assert found.endpoint is not None
    assert found.endpoint.client_secret == ""


async def test_client_credentials_come_from_the_connections_own_secret_which_may_say_where_to_and_for_what() -> (
    None
):
    login = connection(credential(kind="oauth2-client"))
    cluster = MemoryLookups(
        system(oauth2(grant="clientCredentials", client={}, defaultScopes=["read"])), login
    )
    cluster.put_secret("main", clientId="me", clientSecret="s")
    found = await resolve(cluster, login, "main")
    assert found.grant is Grant.CLIENT_CREDENTIALS
    assert found.scopes == ("read",)
    assert found.endpoint is not None
    assert found.endpoint.client_id == "me"
    cluster.put_secret(
        "main",
        clientId="me",
        clientSecret="s",
        tokenUrl="https://eu.shop.example/token",
        scopes="write all",
        additionalParams="a=b",
    )
    found = await resolve(cluster, login, "main")
    assert found.scopes == ("write", "all")
    assert found.endpoint is not None
    assert found.endpoint.token_url == "https://eu.shop.example/token"
    assert found.endpoint.additional_params == "a=b"


async def test_the_credential_that_the_scheme_names_holds_the_client() -> None:
    client = {"credentialId": "shop-client", "clientId": "old"}
    holder = make(
        "Connection",
        "clients",
        name="Clients",
        systemRef={"name": "shop"},
        credentials=[credential("client", "oauth2-client", credentialId="shop-client")],
    )
    login = connection(credential(kind="oauth2-password"))
    cluster = MemoryLookups(system(oauth2(grant="password", client=client)), login, holder)
    cluster.put_secret("main", username="ada", password="pw")
    cluster.put_secret("client", clientId="app", clientSecret="s")
    found = await resolve(cluster, login, "main")
    assert found.grant is Grant.PASSWORD
    assert found.inputs == {"username": "ada", "password": "pw"}
    assert found.endpoint is not None
    assert (found.endpoint.client_id, found.endpoint.client_secret) == ("app", "s")
    assert (await resolve(cluster, holder, "client")).grant is None, "a client for others asks for nothing"


async def test_the_credential_that_was_named_when_the_flow_began_stands_in_for_the_schemes() -> None:
    holder = make(
        "Connection",
        "clients",
        name="Clients",
        systemRef={"name": "shop"},
        credentials=[credential("client", "oauth2-client", credentialId="other")],
    )
    login = connection(credential(kind="oauth2-code"))
    cluster = MemoryLookups(system(oauth2()), login, holder)
    cluster.put_secret("main", code="c")
    cluster.put_secret("client", clientId="other-app", clientSecret="s")
    found = await resolve(cluster, login, "main", client=OAuth2Client(credential_id="other", client_id="x"))
    assert found.endpoint is not None
    assert found.endpoint.client_id == "other-app"


def _clients(**more: Any) -> dict[str, Any]:
    """A connection of the shop that holds an OAuth client."""
    item = credential("client", "oauth2-client", credentialId="shop-client", **more)
    return make("Connection", "clients", name="Clients", systemRef={"name": "shop"}, credentials=[item])


def _own_scheme(token_url: str, **fields: Any) -> dict[str, Any]:
    """A credential whose scheme is the connection's own, and names the client of another connection."""
    scheme = oauth2("own", tokenUrl=token_url, client={"credentialId": "shop-client"}, **fields)
    own = credential(kind="oauth2-code", authSchemeConfig=scheme)
    del own["authSchemeConfigId"]
    return own


@pytest.mark.parametrize(
    ("token_url", "refresh_url", "sent"),
    [
        (TOKEN_URL, None, True),
        (TOKEN_URL, "https://eu.shop.example/token", True),
        ("https://elsewhere.example/token", None, False),
        (TOKEN_URL, "https://elsewhere.example/token", False),
    ],
)
@pytest.mark.parametrize("stands_in", [False, True], ids=["named by the scheme", "named at the beginning"])
async def test_a_connections_own_scheme_sends_the_client_of_another_one_only_where_that_ones_schemes_do(
    token_url: str, refresh_url: str | None, sent: bool, stands_in: bool
) -> None:
    more = {"refreshUrl": refresh_url} if refresh_url else {}
    login, holder = connection(_own_scheme(token_url, **more)), _clients()
    shop = system(oauth2(), oauth2("eu", tokenUrl="https://eu.shop.example/token"))
    cluster = MemoryLookups(shop, login, holder)
    cluster.put_secret("main", code="c")
    cluster.put_secret("client", clientId="app", clientSecret="s3cret")
    client = OAuth2Client(credential_id="shop-client") if stands_in else None
    found = await resolve(cluster, login, "main", client=client)
    assert reasons(found) == ([] if sent else ["UrlNotGranted"])
    assert (found.endpoint is not None) is sent
    if not sent:
        assert TOKEN_URL in found.problems[0].message


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (oauth2("held", tokenUrl="https://own.example/token"), None),
        ({"id": "held", "type": "basic-auth"}, "no URL yet"),
    ],
)
async def test_the_client_goes_where_its_own_connections_own_scheme_says(
    held: dict[str, Any], told: str | None
) -> None:
    holding, login = _clients(authSchemeConfig=held), connection(_own_scheme("https://own.example/token"))
    del holding["spec"]["credentials"][0]["authSchemeConfigId"]
    cluster = MemoryLookups(login, holding)
    cluster.put_secret("main", code="c")
    cluster.put_secret("client", clientId="app", clientSecret="s")
    found = await resolve(cluster, login, "main")
    assert reasons(found) == (["UrlNotGranted"] if told else [])
    assert told is None or told in found.problems[0].message


async def test_a_connections_own_scheme_sends_a_client_of_this_connection_anywhere() -> None:
    client = credential("client", "oauth2-client", credentialId="shop-client")
    login = connection(_own_scheme("https://elsewhere.example/token"), client)
    cluster = MemoryLookups(system(oauth2()), login)
    cluster.put_secret("main", code="c")
    cluster.put_secret("client", clientId="app", clientSecret="s")
    found = await resolve(cluster, login, "main")
    assert found.endpoint is not None
    assert found.endpoint.client_secret == "s"


FOLLOWED = "https://login.orders.example/token"


def _following(*schemes: dict[str, Any], name: str = "shop", own: tuple[dict[str, Any], ...] = ()) -> Any:
    """A System whose schemes come from a Connector, such as a project's, as API and operator read it."""
    found = system(*own, name=name)
    found["spec"]["connectorRef"] = {"name": "orders"}
    found["status"] = {"fromConnector": {"version": "1", "authSchemeConfigs": list(schemes)}}
    return filled(found)


@pytest.mark.parametrize(
    ("held_by", "sent"),
    [
        (_following(oauth2("orders", tokenUrl=FOLLOWED)), True),
        (_following(oauth2("orders", tokenUrl=FOLLOWED), own=(oauth2(),)), True),
        (_following(oauth2(tokenUrl=FOLLOWED), own=(oauth2(),)), False),
        (_following(oauth2("orders", tokenUrl="https://next.orders.example/token")), False),
        (system(oauth2()), False),
    ],
    ids=[
        "its connector",
        "beside its own",
        "its own of this id wins",
        "its connector's next version",
        "no connector",
    ],
)
@pytest.mark.parametrize("whose", ["scheme of the connection", "scheme that follows the connector"])
async def test_what_a_connector_says_counts_for_the_systems_that_follow_it_alone(
    whose: str, held_by: dict[str, Any], sent: bool
) -> None:
    """Who writes a project sends clients of its System's connections elsewhere, and those of no other System."""
    if whose == "scheme of the connection":
        login, client = connection(_own_scheme(FOLLOWED)), None
        objects = [login]
    else:
        login = connection(credential(kind="oauth2-code", scheme="orders"))
        login["spec"]["systemRef"] = {"name": "orders"}
        client = OAuth2Client(credential_id="shop-client")
        objects = [login, _following(oauth2("orders", tokenUrl=FOLLOWED), name="orders")]
    cluster = MemoryLookups(held_by, _clients(), *objects)
    cluster.put_secret("main", code="c", state="s")
    cluster.put_secret("client", clientId="app", clientSecret="s3cret")
    found = await resolve(cluster, login, "main", client=client)
    assert reasons(found) == ([] if sent else ["UrlNotGranted"])
    assert (found.endpoint is not None) is sent


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, True),
        ({"tokenUrl": "https://elsewhere.example/token"}, False),
        ({"refreshUrl": "https://elsewhere.example/token"}, False),
    ],
    ids=["where its holder's system says", "token elsewhere", "refresh elsewhere"],
)
async def test_a_password_takes_the_client_of_another_connection_only_where_that_ones_schemes_do(
    fields: dict[str, str], sent: bool
) -> None:
    item = credential(
        kind="oauth2-password",
        authSchemeConfig=oauth2("own", grant="password", client={"credentialId": "shop-client"}, **fields),
    )
    del item["authSchemeConfigId"]
    login = connection(item)
    cluster = MemoryLookups(system(oauth2()), login, _clients())
    cluster.put_secret("main", username="ada", password="pw")
    cluster.put_secret("client", clientId="app", clientSecret="s3cret")
    found = await resolve(cluster, login, "main")
    assert found.grant is Grant.PASSWORD
    assert reasons(found) == ([] if sent else ["UrlNotGranted"])
    assert (found.endpoint is not None) is sent


@pytest.mark.parametrize("chosen", [None, OAuth2Client(credential_id="shop-client")], ids=["scheme", "state"])
async def test_client_credentials_are_the_connections_own_whatever_else_names_a_client(
    chosen: OAuth2Client | None,
) -> None:
    scheme = oauth2("own", grant="clientCredentials", client={}, tokenUrl="https://elsewhere.example/token")
    scheme["oauth2"]["grant"] |= {
        "authorizationCode": {"credentialId": "shop-client"},
        "password": {"credentialId": "shop-client"},
    }
    item = credential(kind="oauth2-client", authSchemeConfig=scheme)
    del item["authSchemeConfigId"]
    login = connection(item)
    cluster = MemoryLookups(system(oauth2()), login, _clients())
    cluster.put_secret("main", clientId="mine", clientSecret="my-own")
    cluster.put_secret("client", clientId="app", clientSecret="s3cret")
    found = await resolve(cluster, login, "main", client=chosen)
    assert found.endpoint is not None
    assert (found.endpoint.client_id, found.endpoint.client_secret) == ("mine", "my-own")


@pytest.mark.parametrize("elsewhere", ["tokenUrl", "refreshUrl", ""])
@pytest.mark.parametrize("whose", ["scheme of the same connection", "scheme of another system"])
async def test_a_client_that_the_authorisation_chose_goes_only_where_its_holders_side_says(
    whose: str, elsewhere: str
) -> None:
    """Nobody who wrote the scheme was asked about the client's Secret: the state alone names it."""
    fields = {elsewhere: "https://elsewhere.example/token"} if elsewhere else {}
    client = credential("client", "oauth2-client", credentialId="shop-client")
    if whose == "scheme of another system":
        other = system(oauth2(**fields), name="other")
        login = connection(credential(kind="oauth2-code"))
        login["spec"]["systemRef"] = {"name": "other"}
        cluster = MemoryLookups(system(oauth2()), other, login, _clients())
    else:
        item = credential(kind="oauth2-code", authSchemeConfig=oauth2("own", **fields))
        del item["authSchemeConfigId"]
        login = connection(item, client)
        cluster = MemoryLookups(system(oauth2()), login)
    cluster.put_secret("main", code="c", state="s")
    cluster.put_secret("client", clientId="app", clientSecret="s3cret")
    found = await resolve(cluster, login, "main", client=OAuth2Client(credential_id="shop-client"))
    assert reasons(found) == (["UrlNotGranted"] if elsewhere else [])
    assert (found.endpoint is None) is bool(elsewhere)


@pytest.mark.parametrize("authorised", [False, True], ids=["token given whole", "user came back"])
async def test_a_connections_own_scheme_of_oauth1_names_consumers_of_this_connection_only(
    authorised: bool,
) -> None:
    fields = {"signatureMethod": "PLAINTEXT", "tokenEndpoint": {"url": "https://elsewhere.example/token"}}
    scheme = {"id": "own", "type": "oauth1", "oauth1": {**fields, "credentialId": "shop-client"}}
    item = credential(kind="oauth1", authSchemeConfig=scheme)
    del item["authSchemeConfigId"]
    back = {"state": "s", "oauthVerifier": "v"} if authorised else {"oauthTokenSecret": "ts"}
    for login, others, wanted in (
        (connection(item), [_clients()], ["CredentialNotGranted"]),
        (connection(item, credential("client", "oauth2-client", credentialId="shop-client")), [], []),
    ):
        cluster = MemoryLookups(system(oauth2()), login, *others)
        cluster.put_secret("main", oauthToken="t", **back)
        cluster.put_secret("client", clientId="app", clientSecret="s3cret")
        found = await resolve(cluster, login, "main")
        assert reasons(found) == wanted
        assert (found.oauth1 is not None) is (authorised and not wanted)


async def test_given_tokens_without_a_refresh_token_need_nothing_else_to_be_right() -> None:
    login = connection(credential())
    cluster = MemoryLookups(system(oauth2(client={})), login)
    cluster.put_secret("main", accessToken="at", expiresAt="2026-02-01T00:00:00Z")
    found = await resolve(cluster, login, "main")
    assert (found.grant, found.endpoint, found.problems) == (Grant.TOKEN, None, ())
    assert found.inputs == {"accessToken": "at", "expiresAt": "2026-02-01T00:00:00Z"}
    cluster.put_secret("main", accessToken="at", refreshToken="rt")
    assert reasons(await resolve(cluster, login, "main")) == ["ClientMissing"]


@pytest.mark.parametrize(
    ("scheme", "kind", "values", "expected"),
    [
        (oauth2(), "oauth2-code", None, "SecretNotFound"),
        (oauth2(), "oauth2-code", {"state": "s"}, "SecretKeyMissing"),
        (oauth2(), "oauth2-token", {"tokenType": "Bearer"}, "SecretKeyMissing"),
        (oauth2(), "oauth2-password", {"username": "a", "password": "b"}, "GrantMismatch"),
        (oauth2(grant="clientCredentials", client={}), "oauth2-code", {"code": "c"}, "GrantMismatch"),
        (
            oauth2(grant="clientCredentials", client={}),
            "oauth2-client",
            {"clientId": "c"},
            "SecretKeyMissing",
        ),
        (oauth2(client={"credentialId": "nobody"}), "oauth2-code", {"code": "c"}, "CredentialNotFound"),
        (oauth2(client={"secretRef": {"name": "gone"}}), "oauth2-code", {"code": "c"}, "SecretNotFound"),
        (oauth2(client={}), "oauth2-code", {"code": "c"}, "ClientMissing"),
        (oauth2(tokenUrl="https://{shop}.example/token"), "oauth2-code", {"code": "c"}, "UrlWrong"),
        (
            oauth2(tokenUrl="https://{shop}.shop.example/token"),
            "oauth2-code",
            {"code": "c"},
            "VariableMissing",
        ),
        (oauth2(tokenUrl="https://me:pw@shop.example/"), "oauth2-code", {"code": "c"}, "UrlWrong"),
        (oauth2("another"), "oauth2-code", {"code": "c"}, "AuthSchemeNotFound"),
        (oauth2(mtlsEnabled=True), "oauth2-code", {"code": "c"}, "CertificateNotFound"),
    ],
)
async def test_what_stands_in_the_way_is_said(
    scheme: dict[str, Any], kind: str, values: dict[str, str] | None, expected: str
) -> None:
    login = connection(credential(kind=kind))
    cluster = MemoryLookups(system(scheme), login)
    if values is not None:
        cluster.put_secret("main", **values)
    found = await resolve(cluster, login, "main")
    assert expected in reasons(found)
    assert found.endpoint is None
    assert all(problem.message.count(" ") > 4 for problem in found.problems)


async def test_other_schemes_and_credentials_have_no_token_request() -> None:
    login = connection(
        credential("key", "string", "key"), credential("token", "oauth2-token", "none"), credential("x")
    )
    cluster = MemoryLookups(system({"id": "key", "type": "api-key"}, {"id": "none", "type": "none"}), login)
    assert await resolve(cluster, login, "key") == Resolved()
    assert await resolve(cluster, login, "token") == Resolved()
    assert await resolve(cluster, login, "nobody") == Resolved()


async def test_new_inputs_have_a_new_source_and_a_new_client_secret_another_client_mark() -> None:
    scheme = oauth2(client={"clientId": "app", "secretRef": {"name": "app"}})
    login = connection(credential(kind="oauth2-code"))
    cluster = MemoryLookups(system(scheme), login)
    cluster.put_secret("main", code="one")
    cluster.put_secret("app", clientSecret="a")
    first = await resolve(cluster, login, "main")
    cluster.put_secret("app", clientSecret="b")
    rotated = await resolve(cluster, login, "main")
    cluster.put_secret("main", code="two")
    newer = await resolve(cluster, login, "main")
    assert first.source == rotated.source != newer.source
    assert first.asked_as != rotated.asked_as == newer.asked_as


async def test_a_new_client_secret_is_a_new_source_where_it_is_all_that_tokens_come_from() -> None:
    login = connection(credential(kind="oauth2-client"))
    cluster = MemoryLookups(system(oauth2(grant="clientCredentials", client={})), login)
    cluster.put_secret("main", clientId="me", clientSecret="a")
    first = await resolve(cluster, login, "main")
    cluster.put_secret("main", clientId="me", clientSecret="b")
    assert (await resolve(cluster, login, "main")).source != first.source


OF_SHOP = {"keep": [{"path": "shop", "variable": "shop"}]}


def stored_after(found: Resolved, kept: Kept) -> StoredTokens:
    """Tokens of these inputs, with what was kept of the answer."""
    tokens = Tokens(access_token="at", refresh_token="rt", issued_at=NOW, kept=kept)
    return StoredTokens(tokens=tokens, source=found.source)


@pytest.mark.parametrize(
    ("kind", "grant"), [("oauth2-code", "authorizationCode"), ("oauth2-password", "password")]
)
async def test_a_refresh_url_may_have_a_variable_that_the_first_answer_brings(kind: str, grant: str) -> None:
    template = "https://{shop}.shop.example/token"
    login = connection(credential(kind=kind))
    cluster = MemoryLookups(system(oauth2(grant=grant, refreshUrl=template, tokenAnswer=OF_SHOP)), login)
    cluster.put_secret("main", code="c0de", state="st", username="ada", password="pw")
    first = await resolve(cluster, login, "main")
    assert (reasons(first), first.endpoint and first.endpoint.refresh_url) == ([], template)
    stored = stored_after(first, Kept(variables={"shop": "mine"}))
    later = await resolve(cluster, login, "main", stored=stored)
    assert later.endpoint is not None
    assert later.endpoint.refresh_url == "https://mine.shop.example/token"
    assert (later.source, later.asked_as) == (first.source, first.asked_as)
    other = await resolve(cluster, login, "main", stored=replace(stored, source="another"))
    assert other.kept == NOTHING, "another consent begins anew"


@pytest.mark.parametrize(
    "fields",
    [
        {"refreshUrl": "https://{shop}.shop.example/token"},
        {
            "afterToken": {
                "url": "https://{shop}.shop.example/me",
                "keep": [{"path": "s", "variable": "shop"}],
            }
        },
        {"tokenRequest": {"longLived": {"url": "https://{shop}.shop.example/longer", "grantType": "longer"}}},
    ],
    ids=["refreshUrl", "afterToken", "longLived"],
)
async def test_a_variable_that_nothing_gives_is_said(fields: dict[str, Any]) -> None:
    login = connection(credential(kind="oauth2-code"))
    for more, wanted in (({}, ["VariableMissing"]), ({"tokenAnswer": OF_SHOP}, [])):
        cluster = MemoryLookups(system(oauth2(**fields, **more)), login)
        cluster.put_secret("main", code="c0de", state="st")
        assert reasons(await resolve(cluster, login, "main")) == wanted


async def test_a_client_goes_to_no_refresh_url_with_a_variable_that_was_not_granted() -> None:
    fields = {"refreshUrl": "https://{shop}.elsewhere.example/token", "tokenAnswer": OF_SHOP}
    login = connection(_own_scheme(TOKEN_URL, **fields))
    cluster = MemoryLookups(system(oauth2()), login, _clients())
    cluster.put_secret("main", code="c")
    cluster.put_secret("client", clientId="app", clientSecret="s3cret")
    assert reasons(await resolve(cluster, login, "main")) == ["UrlNotGranted"]


@pytest.mark.parametrize(
    "fields",
    [
        {"hosts": ["*.shop.example"]},
        {"afterToken": {"url": "https://shop.example/me", "keep": [{"path": "id", "as": "accountId"}]}},
    ],
    ids=["hosts", "afterToken"],
)
async def test_what_mends_an_answer_that_could_not_be_kept_lifts_its_refusal(fields: dict[str, Any]) -> None:
    login = connection(credential(kind="oauth2-client"))
    fingerprints = set()
    for more in ({}, fields):
        cluster = MemoryLookups(system(oauth2(grant="clientCredentials", client={}, **more)), login)
        cluster.put_secret("main", clientId="me", clientSecret="s")
        fingerprints.add((await resolve(cluster, login, "main")).asked_as)
    assert len(fingerprints) == 2


async def test_what_was_kept_since_counts_more_than_the_callback() -> None:
    keep = {"keep": [{"parameter": "shop", "variable": "shop"}]}
    login = connection(credential(kind="oauth2-code"))
    cluster = MemoryLookups(system(oauth2(authorization=keep, tokenAnswer=OF_SHOP)), login)
    cluster.put_secret("main", code="c0de", state="st", callback="shop=old")
    found = await resolve(cluster, login, "main")
    assert found.kept.variables == {"shop": "old"}
    stored = stored_after(found, Kept(variables={"shop": "new"}))
    assert (await resolve(cluster, login, "main", stored=stored)).kept.variables == {"shop": "new"}


OF_REGION = {
    "tokenUrl": "https://{region}.shop.example/token",
    "authorization": {"keep": [{"parameter": "region", "variable": "region", "pattern": "^(eu|us)$"}]},
}


async def test_a_token_url_that_the_callback_completes_is_no_problem_of_the_connection() -> None:
    login = connection(credential(kind="oauth2-code"))
    cluster = MemoryLookups(system(oauth2(**OF_REGION)), login)
    cluster.put_secret("main", code="c0de", state="st", callback="region=eu")
    found = await resolve(cluster, login, "main")
    assert found.endpoint is not None
    assert (found.problems, found.endpoint.token_url) == ((), "https://eu.shop.example/token")
    cluster.put_secret("main", code="x", state="x", callback="x")
    assert [one.reason for one in (await resolve(cluster, login, "main")).problems] == ["VariableMissing"]
    assert (await resolve(cluster, login, "main", stand_ins=True)).problems == ()
