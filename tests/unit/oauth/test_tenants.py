"""Values in the URLs of an auth scheme: the tenant that is asked for tokens, and whose tokens they are."""

from typing import Any

import pytest

from tests.unit.oauth.memory_lookups import MemoryLookups, credential, make, oauth2, system
from tests.unit.oauth.token_shop import Provider, Shop, kept
from tieline_core.credentials.grant_request import UnresolvedError
from tieline_core.credentials.resolver import resolve
from tieline_core.credentials.tenants import CHANGED, tenant_of, without_tokens_of_others
from tieline_core.systems import base_url_problem, connection_base_url, input_problems
from tieline_protocol.oauth.token_client import RefusedError

SHOPIFY = "https://{shop}.myshopify.com/admin/oauth/access_token"
INPUT = {"name": "shop", "pattern": "^[a-z0-9][a-z0-9-]*$"}


def of_tenant(provider: Provider, kind: str, **more: Any) -> Shop:
    """A shop whose token URL has the tenant, which is a."""
    shop = Shop(provider, kind, **more)
    url = provider.url.replace("/token", "/tenants/{tenant}/token")
    shop.system["spec"]["authSchemeConfigs"][0]["oauth2"]["tokenUrl"] = url
    move_to(shop, "a")
    return shop


def move_to(shop: Shop, tenant: str) -> None:
    shop.connection["spec"]["variables"] = {"tenant": tenant}
    shop.connection = shop.kube.put(shop.connection)
    shop.lookups.objects[1] = shop.connection


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({}, "VariableMissing"),
        ({"shop": ""}, "VariableMissing"),
        *(
            ({"shop": value}, "VariableInvalid")
            for value in ("evil.com/", "a.b", "x@evil", "..", "shöp", "a" * 300, "%2e", "evil.com#")
        ),
    ],
)
async def test_values_that_kubectl_wrote_are_checked_when_used(
    variables: dict[str, str], reason: str
) -> None:
    login = make(
        "Connection",
        "login",
        name="Login",
        systemRef={"name": "shop"},
        credentials=[credential(kind="oauth2-code")],
        variables=variables,
    )
    shop = system(oauth2(tokenUrl=SHOPIFY, refreshUrl=SHOPIFY))
    shop["spec"]["inputs"] = [INPUT]
    lookups = MemoryLookups(shop, login)
    lookups.put_secret("main", code="c0de", state="st")
    found = await resolve(lookups, login, "main")
    assert found.endpoint is None
    assert {one.reason for one in found.problems} == {reason}
    assert all("shop" in one.message for one in found.problems)


async def test_token_and_refresh_go_to_the_tenant(provider: Provider, token_manager_of: Any) -> None:
    shop = of_tenant(
        provider, "oauth2-code", refreshUrl=provider.url.replace("/token", "/tenants/{tenant}/token")
    )
    await shop.authorise(variables='{"tenant":"a"}')
    tokens = await kept(token_manager_of(shop), shop)
    assert tokens.access_token == "at1"
    again = await kept(token_manager_of(shop), shop, rejected="at1")
    assert again.access_token == "at2"
    assert provider.paths == ["/tenants/a/token", "/tenants/a/token"]


async def test_tokens_of_one_tenant_never_reach_another(provider: Provider, token_manager_of: Any) -> None:
    shop = of_tenant(provider, "oauth2-code")
    await shop.authorise(variables='{"tenant":"a"}')
    await kept(token_manager_of(shop), shop)
    before = shop.tokens_secret
    move_to(shop, "b")
    for rejected in ("", "at1"):
        with pytest.raises(UnresolvedError) as caught:
            await token_manager_of(shop).fresh(shop.connection, "main", rejected=rejected)
        assert caught.value.problems[0].reason == CHANGED
        assert "connect again" in str(caught.value)
    spec, scheme = shop.connection["spec"], shop.system["spec"]["authSchemeConfigs"][0]
    assert without_tokens_of_others(before, tenant_of(spec, shop.system["spec"], scheme))["data"] == {}
    assert provider.paths == ["/tenants/a/token"]
    assert shop.tokens_secret == before
    move_to(shop, "a")
    assert (await kept(token_manager_of(shop), shop)).access_token == "at1", (
        "the old value makes them good again"
    )
    move_to(shop, "b")
    await shop.authorise(code="another", variables='{"tenant":"b"}')
    assert (await kept(token_manager_of(shop), shop)).access_token == "at2"
    assert provider.paths == ["/tenants/a/token", "/tenants/b/token"]


async def test_tokens_that_were_given_stay_with_their_tenant(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = of_tenant(provider, "oauth2-token")
    shop.store(accessToken="given", refreshToken="r")
    assert (await kept(token_manager_of(shop), shop)).access_token == "given"
    move_to(shop, "b")
    with pytest.raises(UnresolvedError, match="connect again"):
        await token_manager_of(shop).fresh(shop.connection, "main")
    assert provider.asked == []


async def test_a_client_gets_tokens_of_the_new_tenant(provider: Provider, token_manager_of: Any) -> None:
    shop = of_tenant(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="s")
    await kept(token_manager_of(shop), shop)
    move_to(shop, "b")
    assert (await kept(token_manager_of(shop), shop)).access_token == "at2"
    assert provider.paths == ["/tenants/a/token", "/tenants/b/token"]
    assert "refresh_token" not in provider.asked[1]


async def test_a_code_of_one_tenant_never_reaches_another(provider: Provider, token_manager_of: Any) -> None:
    """Two windows: the connection's value changes while somebody signs in at the old tenant."""
    shop = of_tenant(provider, "oauth2-code")
    await shop.authorise(variables='{"tenant":"a"}')
    move_to(shop, "b")
    with pytest.raises(RefusedError, match="connect again"):
        await token_manager_of(shop).fresh(shop.connection, "main")
    assert provider.asked == []


def test_inputs_decide_about_the_base_url_too() -> None:
    spec: dict[str, Any] = {
        "templateBaseUrl": "https://{shop}.shop.example/{version}",
        "variables": {"version": "v1/x"},
    }
    assert connection_base_url({"variables": {"shop": "a/b"}}, spec) == "https://a/b.shop.example/v1/x", (
        "variables that are no inputs are the administrator's"
    )
    spec["inputs"] = [INPUT]
    assert connection_base_url({"variables": {"shop": "eu"}}, spec) == "https://eu.shop.example/v1/x"
    for value in ("a/b", "evil.com/", "..", "EU", "", "x@evil"):
        url = connection_base_url({"variables": {"shop": value}}, spec)
        assert url == "https://{shop}.shop.example/v1/x"
        assert bool(base_url_problem({"variables": {"shop": value}}, spec)) == bool(value)
    assert (
        connection_base_url({"baseUrl": "https://{shop}.mine.example"}, spec) == "https://{shop}.mine.example"
    )
    assert tenant_of({"variables": {"shop": "a"}}, spec, None).mark != tenant_of({}, spec, None).mark
    assert tenant_of({"baseUrl": "https://x.example", "variables": {"shop": "a"}}, spec, None).mark == ""
    assert tenant_of({"variables": {"version": "v2"}}, spec, None).mark == ""


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"inputs": [{"name": "shop", "pattern": "^(?=a)$"}]}, 'The pattern of the input "shop"'),
        ({"inputs": [INPUT], "variables": {"shop": "A/b"}}, 'The default of the input "shop"'),
        ({"inputs": [{"name": "host"}], "templateBaseUrl": "https://{host}/api"}, "templateBaseUrl leaves"),
        ({"inputs": [{"name": "host", "hosts": ["*.com"]}], "templateBaseUrl": "https://{host}/"}, "*.com"),
    ],
)
def test_wrong_inputs_say_what_to_do(spec: dict[str, Any], says: str) -> None:
    (problem,) = input_problems({"templateBaseUrl": "https://x.example", **spec})
    assert says in problem
