"""What becomes of codes and states: each is exchanged once, for the credential that it is for."""

import asyncio
import copy
from base64 import b64encode
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.oauth.memory_lookups import credential, oauth2
from tests.unit.oauth.token_shop import CALLBACK, NOW, PKCE, Provider, Shop, kept
from tieline_core.credentials.grant_request import UnresolvedError
from tieline_core.credentials.token_manager import CLIENT
from tieline_core.oauth import token_secret_codec
from tieline_protocol.oauth.token_client import RefusedError, UnreachableError


async def test_a_code_is_exchanged_with_verifier_and_redirect_and_its_tokens_have_a_secret_of_their_own(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code", pkce=True, additionalTokenParams="audience=shop")
    await shop.authorise()
    before = dict(shop.kube.objects["Secret", "acme", "main"])
    found = await token_manager_of(shop).fresh(shop.connection, "main")
    assert found.due_at == NOW + timedelta(minutes=45)
    assert provider.asked == [
        {
            "grant_type": "authorization_code",
            "code": "c0de",
            "redirect_uri": CALLBACK,
            "code_verifier": PKCE,
            "client_id": "app",
            "audience": "shop",
        }
    ]
    secret = shop.tokens_secret
    assert secret["type"] == "tieline.dev/credential"
    assert secret["metadata"]["labels"]["tieline.dev/tokens"] == "true"
    assert secret["metadata"]["ownerReferences"][0]["uid"] == shop.connection["metadata"]["uid"]
    assert secret["metadata"]["annotations"][token_secret_codec.DUE_AT] == "2026-01-01T12:45:00Z"
    assert token_secret_codec.CLAIMED_BY not in secret["metadata"]["annotations"]
    held = token_secret_codec.read(secret).tokens
    assert (held.access_token, held.refresh_token) == ("at1", "rt1")
    assert held.scopes == ("orders", "offline_access"), "asked for, as the answer names none"
    assert shop.kube.objects["Secret", "acme", "main"] == before
    assert shop.kube.secrets("tieline.dev/oauth-state") == []


async def test_granted_scopes_are_kept_through_refreshes_that_name_none(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code", refreshUrl=provider.url.replace("/token", "/refresh"))
    await shop.authorise()
    provider.answers = [{"scope": "orders"}, {"refresh_token": None}]
    token_manager = token_manager_of(shop)
    assert (await kept(token_manager, shop)).scopes == ("orders",)
    shop.now += timedelta(minutes=46)
    renewed = await kept(token_manager, shop)
    assert (renewed.access_token, renewed.refresh_token, renewed.scopes) == ("at2", "rt1", ("orders",))
    assert provider.asked[1]["refresh_token"] == "rt1"
    assert provider.paths == ["/token", "/refresh"]


async def test_many_processes_exchange_a_code_with_one_request(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code")
    await shop.authorise()
    keepers = [token_manager_of(shop) for _ in range(4)]
    found = await asyncio.gather(*(kept(one, shop, retry=n % 2 == 0) for n, one in enumerate(keepers * 10)))
    assert {one.access_token for one in found} == {"at1"}
    assert len(provider.asked) == 1


async def test_a_refused_code_is_asked_about_once_by_many_and_not_again(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code")
    await shop.authorise()
    provider.answers = [{"error": "invalid_grant", "error_description": "c0de"}] * 9
    keepers = [token_manager_of(shop) for _ in range(4)]
    calls = (one.fresh(shop.connection, "main", retry=True) for one in keepers)
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in found] == [RefusedError] * 4
    shop.now += timedelta(days=1)
    with pytest.raises(RefusedError) as caught:
        await keepers[0].fresh(shop.connection, "main")
    assert caught.value.code == "invalid_grant"
    assert "c0de" not in str(caught.value)
    assert len(provider.asked) == 1


async def test_a_new_code_replaces_the_tokens_of_the_old_one(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code")
    token_manager = token_manager_of(shop)
    await shop.authorise()
    assert (await kept(token_manager, shop)).access_token == "at1"
    await shop.authorise(code="another")
    assert (await kept(token_manager, shop)).access_token == "at2"
    assert [form["code"] for form in provider.asked] == ["c0de", "another"]


async def test_a_cache_that_lags_behind_does_not_bring_old_tokens_back(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-token")
    shop.store(accessToken="mine1", refreshToken="r1")
    token_manager = token_manager_of(shop)
    assert (await kept(token_manager, shop)).access_token == "mine1"
    shop.store(accessToken="mine2", refreshToken="r2")
    assert (await kept(token_manager, shop)).access_token == "mine2"
    shop.lookups.put_secret("main", accessToken="mine1", refreshToken="r1")
    assert (await kept(token_manager, shop)).access_token == "mine2"
    assert provider.asked == []


@pytest.mark.parametrize(
    ("pending", "code"),
    [
        ({"organisation_id": "01BX5ZZKBKACTAV9WEVGEMMVRZ"}, "state_unknown"),
        ({"system_id": "01BX5ZZKBKACTAV9WEVGEMMVRZ"}, "state_foreign"),
        ({"credential_id": "of-another-connection"}, "state_foreign"),
        ({"client_id": "another"}, "client_mismatch"),
    ],
)
async def test_a_state_is_good_for_its_own_credential_only(
    provider: Provider, token_manager_of: Any, pending: dict[str, Any], code: str
) -> None:
    shop = Shop(provider, "oauth2-code")
    await shop.authorise(**pending)
    with pytest.raises(RefusedError) as caught:
        await kept(token_manager_of(shop), shop)
    assert caught.value.code == code
    assert provider.asked == []


async def test_a_code_that_was_obtained_without_pkce_is_not_exchanged_where_the_scheme_demands_it(
    provider: Provider, token_manager_of: Any
) -> None:
    """The scheme may be the connection's own: what the URL had is not what counts."""
    shop = Shop(provider, "oauth2-code")
    [item] = shop.connection["spec"]["credentials"]
    item["authSchemeConfig"] = oauth2(tokenUrl=provider.url, pkce=True)
    del item["authSchemeConfigId"]
    await shop.authorise(code_verifier="")
    with pytest.raises(RefusedError, match="PKCE") as caught:
        await kept(token_manager_of(shop), shop)
    assert caught.value.code == "pkce_missing"
    assert provider.asked == []
    await shop.authorise(code="another")
    assert (await kept(token_manager_of(shop), shop)).access_token == "at1"
    assert provider.asked[0]["code_verifier"] == PKCE


async def test_a_state_is_good_once_and_for_a_while(provider: Provider, token_manager_of: Any) -> None:
    shop = Shop(provider, "oauth2-code")
    state = await shop.authorise()
    token_manager = token_manager_of(shop)
    await kept(token_manager, shop)
    shop.store(code="stolen", state=state)
    with pytest.raises(RefusedError) as caught:
        await kept(token_manager, shop)
    assert caught.value.code == "state_unknown"
    await shop.authorise(code="late")
    shop.now += timedelta(minutes=11)
    with pytest.raises(RefusedError) as caught:
        await kept(token_manager, shop)
    assert caught.value.code == "state_expired"
    shop.store(code="no state")
    with pytest.raises(RefusedError) as caught:
        await kept(token_manager, shop)
    assert caught.value.code == "state_unknown"
    assert len(provider.asked) == 1


async def test_an_exchange_that_an_outage_interrupted_is_taken_up_again_with_the_same_state(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code")
    await shop.authorise()
    provider.answers = [503]
    with pytest.raises(UnreachableError):
        await kept(token_manager_of(shop), shop)
    with pytest.raises(UnreachableError):
        await kept(token_manager_of(shop), shop)
    assert len(provider.asked) == 1
    shop.now += timedelta(minutes=11)
    assert (await kept(token_manager_of(shop), shop)).access_token == "at2"


async def test_a_state_of_nothing_is_free_again(provider: Provider, token_manager_of: Any) -> None:
    shop = Shop(provider, "oauth2-code")
    state = await shop.authorise()
    provider.answers = [503]
    token_manager = token_manager_of(shop)
    with pytest.raises(UnreachableError):
        await kept(token_manager, shop)
    with pytest.raises(RefusedError):
        await shop.states.peek(state, namespace="acme")
    await token_manager.abandon(shop.connection, "main")
    assert (await shop.states.peek(state, namespace="acme")).client_id == "app"


@pytest.mark.parametrize("step", ["exchange", "refresh"])
async def test_a_client_that_the_authorisation_chose_is_sent_to_no_url_of_the_connections_own(
    provider: Provider, token_manager_of: Any, step: str
) -> None:
    shop = Shop(provider, "oauth2-code")
    items = shop.connection["spec"]["credentials"]
    items.append(credential("client", "oauth2-client", credentialId="shop-client"))
    shop.lookups.put_secret("client", clientId="app", clientSecret="s3cret")
    data = {"clientId": b64encode(b"app").decode(), "clientSecret": b64encode(b"s3cret").decode()}
    metadata = {"name": "client", "namespace": "acme"}
    shop.kube.put({"kind": "Secret", "type": "tieline.dev/credential", "metadata": metadata, "data": data})
    token_manager = token_manager_of(shop)
    await shop.authorise(credential_id="shop-client")
    if step == "refresh":
        assert (await kept(token_manager, shop)).access_token == "at1"
        assert CLIENT in shop.tokens_secret["metadata"]["annotations"]
        shop.now += timedelta(minutes=46)
    before = len(provider.asked)
    # Another object, as a watch brings it: what was read of the old one is remembered.
    shop.connection = copy.deepcopy(shop.connection)
    [item, _] = shop.connection["spec"]["credentials"]
    item["authSchemeConfig"] = oauth2("own", tokenUrl=provider.url.replace("/token", "/refresh"))
    item.pop("authSchemeConfigId")
    shop.connection["metadata"]["resourceVersion"] = "77"
    shop.lookups.objects = [shop.system, shop.kube.put(shop.connection)]
    with pytest.raises(UnresolvedError, match="its secret may be sent to"):
        await kept(token_manager, shop)
    assert len(provider.asked) == before


@pytest.mark.parametrize(
    ("accounts", "client", "refresh_token"),
    [
        (("a", "a"), "app", "rt1"),
        ((None, None), "app", "rt1"),
        (("a", "b"), "app", None),
        (("a", "a"), "other", None),
    ],
    ids=["same account", "unknown account", "another account", "another client"],
)
async def test_a_second_consent_without_a_refresh_token_keeps_the_old_one(
    provider: Provider,
    token_manager_of: Any,
    accounts: tuple[str | None, str | None],
    client: str,
    refresh_token: str | None,
) -> None:
    shop = Shop(provider, "oauth2-code", tokenAnswer={"keep": [{"path": "sub", "as": "accountId"}]})
    await shop.authorise()
    first, second = accounts
    provider.answers = [{"sub": first}, {"sub": second, "refresh_token": None}]
    token_manager = token_manager_of(shop)
    await kept(token_manager, shop)
    if client != "app":
        shop.system = copy.deepcopy(shop.system)
        grant = shop.system["spec"]["authSchemeConfigs"][0]["oauth2"]["grant"]
        grant["authorizationCode"]["clientId"] = client
        shop.lookups.objects = [shop.system, shop.connection]
    await shop.authorise(code="an0ther", client_id=client)
    found = await kept(token_manager_of(shop), shop)
    assert (found.access_token, found.refresh_token) == ("at2", refresh_token or "")


async def test_a_refresh_token_that_was_refused_does_not_outlive_a_new_consent(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code")
    await shop.authorise()
    provider.answers = [{}, {"error": "invalid_grant"}, {"refresh_token": None}]
    token_manager = token_manager_of(shop)
    await kept(token_manager, shop)
    shop.now += timedelta(minutes=46)
    with pytest.raises(RefusedError):
        await kept(token_manager, shop)
    await shop.authorise(code="an0ther")
    found = await kept(token_manager_of(shop), shop)
    assert (found.access_token, found.refresh_token) == ("at3", "")


async def test_a_realm_of_the_callback_is_kept_with_the_tokens(
    provider: Provider, token_manager_of: Any
) -> None:
    keep = [{"parameter": "realmId", "variable": "realm", "pattern": "^[0-9]+$"}]
    shop = Shop(provider, "oauth2-code", authorization={"keep": keep})
    state = await shop.authorise()
    shop.store(code="c0de", state=state, callback=f"?code=c0de&state={state}&realmId=91303")
    token_manager = token_manager_of(shop)
    assert (await kept(token_manager, shop)).kept.variables == {"realm": "91303"}
    shop.now += timedelta(minutes=46)
    renewed = await kept(token_manager, shop)
    assert (renewed.access_token, renewed.kept.variables) == ("at2", {"realm": "91303"})
    state = await shop.authorise(code="next")
    shop.store(code="next", state=state, callback="realmId=../../evil")
    with pytest.raises(UnresolvedError, match="does not match its pattern"):
        await kept(token_manager_of(shop), shop)


async def test_a_token_that_is_too_young_is_not_refreshed(provider: Provider, token_manager_of: Any) -> None:
    shop = Shop(provider, "oauth2-code", refresh={"minimumAge": "50m"})
    await shop.authorise()
    token_manager = token_manager_of(shop)
    await kept(token_manager, shop)
    shop.now += timedelta(minutes=46)
    assert (await kept(token_manager, shop)).access_token == "at1"
    with pytest.raises(UnreachableError) as caught:
        await kept(token_manager, shop, rejected="at1")
    assert caught.value.retry_after == 240
    assert len(provider.asked) == 1
    shop.now += timedelta(minutes=5)
    assert (await kept(token_manager, shop)).access_token == "at2"


async def test_a_lost_answer_is_asked_for_again_while_the_old_token_is_good(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code", refresh={"graceForOldToken": "12s"})
    await shop.authorise()
    token_manager = token_manager_of(shop)
    await kept(token_manager, shop)
    shop.now += timedelta(minutes=46)
    provider.answers = [503]
    with pytest.raises(UnreachableError):
        await kept(token_manager, shop)
    shop.now += timedelta(seconds=4)
    assert (await kept(token_manager, shop)).access_token == "at3"
    assert [form.get("refresh_token") for form in provider.asked[1:]] == ["rt1", "rt1"]
