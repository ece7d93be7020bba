"""How token credentials of OAuth 1.0 come about when users come back, and where they are kept."""

import json
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.oauth.memory_kube import MemoryKube
from tests.unit.oauth.memory_lookups import ACME, MemoryLookups, credential, make, oauth2, system
from tests.unit.oauth.oauth1_consumer import consumer, endpoint
from tests.unit.oauth.oauth1_provider import CONSUMER, SECRET, OAuth1Provider
from tests.unit.oauth.token_managers import token_manager
from tieline_core.credentials.token_manager import TokenManager, UnresolvedError
from tieline_core.identity.ids import object_id
from tieline_core.identity.names import tokens_name
from tieline_core.oauth.oauth1_tokens import temporary_credentials
from tieline_core.oauth.state_store import OAuthStateStore, PendingAuthorization, new_state
from tieline_protocol.oauth.token_client import RefusedError, TokenClient, UnreachableError

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Shop:
    """A connection whose user has come back from the signing."""

    def __init__(self, signing: OAuth1Provider, client: TokenClient, **scheme: Any) -> None:
        self.kube, self.client, self.signing, self.now = MemoryKube(), client, signing, NOW
        self.fields = {"consumerKey": CONSUMER, "tokenEndpoint": {"url": f"{signing.url}/a/token"}, **scheme}
        self.schemes = [
            {"id": "oauth", "type": "oauth1", "oauth1": self.fields},
            oauth2("clients", grant="clientCredentials"),
        ]
        self.system = system(*self.schemes)
        self.connection = self.kube.put(self.with_credentials(credential(kind="oauth1")))
        self.lookups = MemoryLookups(self.system, self.connection)
        self.states = OAuthStateStore(self.kube, seconds=600, now=lambda: self.now)
        self.own = {"consumerSecret": SECRET}

    @staticmethod
    def with_credentials(*items: dict[str, Any], name: str = "login") -> dict[str, Any]:
        return make("Connection", name, name=name, systemRef={"name": "shop"}, credentials=list(items))

    async def come_back(self, **pending: str) -> dict[str, str]:
        at = endpoint(f"{self.signing.url}/a/temporary")
        state = new_state(ACME)
        callback = f"https://tieline.example/oauth2/callback?state={state}"
        issued = await temporary_credentials(self.client, at, consumer(), callback=callback, params={})
        given = {
            "organisation_id": ACME,
            "system_id": object_id(self.system),
            "credential_id": "main",
            "client_id": CONSUMER,
            "redirect_uri": callback,
            "requested_by": "someone",
            "oauth1_token": issued.token,
            "oauth1_secret": issued.secret,
        }
        await self.states.remember(state, PendingAuthorization(**{**given, **pending}), system=self.system)
        back = self.signing.agree(f"https://x.example?oauth_token={issued.token}")
        self.store(**back)
        return back

    def store(self, **values: str) -> None:
        values = {**self.own, **values}
        self.lookups.put_secret("main", **values)
        secret = {
            "kind": "Secret",
            "metadata": {"name": "main", "namespace": "acme"},
            "type": "tieline.dev/credential",
        }
        data = {key: b64encode(value.encode()).decode() for key, value in values.items()}
        self.kube.put({**secret, "data": data})

    def token_manager(self) -> TokenManager:
        return token_manager(self, self.client)

    @property
    def kept(self) -> dict[str, str]:
        secret = self.kube.objects["Secret", "acme", tokens_name("login", "main")]
        return {key: b64decode(value).decode() for key, value in secret["data"].items()}

    @property
    def asked(self) -> int:
        return sum(seen.url.path.endswith("/token") for seen in self.signing.seen)


async def test_a_verifier_is_exchanged_once_and_its_token_has_a_secret_of_its_own(
    signing: OAuth1Provider, client: TokenClient
) -> None:
    shop = Shop(signing, client)
    await shop.come_back()
    keepers = [shop.token_manager(), shop.token_manager(), shop.token_manager()]
    found = [await token_manager.fresh(shop.connection, "main") for token_manager in keepers]
    ((token, secret),) = signing.issued.items()
    assert shop.kept == {"accessToken": token, "oauthTokenSecret": secret, "tokenType": "OAuth"}
    assert [one.due_at for one in found if one] == [None] * 3
    assert shop.asked == 1
    assert shop.kube.secrets("tieline.dev/oauth-state") == []
    await shop.come_back()
    await keepers[0].fresh(shop.connection, "main")
    assert shop.kept["accessToken"] != token, "other inputs, other tokens"


async def test_what_a_user_gave_at_the_start_goes_along_with_the_verifier(
    signing: OAuth1Provider, client: TokenClient
) -> None:
    at = {
        "url": f"{signing.url}/{{shop}}/token",
        "additionalParamConfigs": [
            {"parameterName": "shop", "location": "LOCATION_ENDPOINT", "modifiable": True, "required": True}
        ],
    }
    shop = Shop(signing, client, tokenEndpoint=at)
    await shop.come_back(oauth1_params=json.dumps({"shop": "north"}))
    await shop.token_manager().fresh(shop.connection, "main")
    assert signing.seen[-1].url.path == "/north/token"


async def test_a_state_of_elsewhere_another_token_or_a_used_one_is_refused_and_nobody_is_asked(
    signing: OAuth1Provider, client: TokenClient
) -> None:
    shop = Shop(signing, client)
    for pending in (
        {"system_id": "01ARZ3NDEKTSV4RRFFQ69G5FAX"},
        {"credential_id": "another"},
        {"client_id": "another"},
        {"oauth1_token": "another"},
        {"oauth1_token": ""},
    ):
        await shop.come_back(**pending)
        with pytest.raises(RefusedError, match="connect again"):
            await shop.token_manager().fresh(shop.connection, "main")
    back = await shop.come_back()
    shop.store(**{**back, "oauthToken": "another"})
    with pytest.raises(RefusedError, match="begun for another"):
        await shop.token_manager().fresh(shop.connection, "main")
    assert shop.asked == 0
    shop.store(**back)
    await shop.token_manager().fresh(shop.connection, "main")
    other = Shop.with_credentials(credential("main", "oauth1"), name="other")
    other = shop.kube.put(other)
    shop.lookups.objects.append(other)
    with pytest.raises(RefusedError, match="not known here"):
        await shop.token_manager().fresh(other, "main")
    await shop.come_back()
    shop.now += timedelta(minutes=11)
    with pytest.raises(RefusedError, match="expired"):
        await shop.token_manager().fresh(shop.connection, "main")
    assert shop.asked == 1


async def test_a_refused_verifier_is_not_tried_again_and_one_whose_provider_is_away_is(
    signing: OAuth1Provider, client: TokenClient
) -> None:
    shop = Shop(signing, client)
    back = await shop.come_back()
    signing.failing = 503
    with pytest.raises(UnreachableError):
        await shop.token_manager().fresh(shop.connection, "main")
    signing.failing = 0
    shop.now += timedelta(seconds=11)
    await shop.token_manager().fresh(shop.connection, "main")
    await shop.come_back()
    shop.store(**{**(await shop.come_back()), "oauthVerifier": "made up"})
    for _ in range(3):
        with pytest.raises(RefusedError, match="verifier_invalid"):
            await shop.token_manager().fresh(shop.connection, "main")
        shop.now += timedelta(hours=2)
    assert shop.asked == 3
    assert "made up" not in json.dumps(shop.kube.objects[("Secret", "acme", tokens_name("login", "main"))])
    assert back["oauthVerifier"] not in shop.kept.values()


@pytest.mark.parametrize("where", ["scheme", "credential"])
async def test_the_consumers_secret_may_lie_with_the_system_or_with_a_credential(
    signing: OAuth1Provider, client: TokenClient, where: str
) -> None:
    fields = {"secretRef": {"name": "consumer"}} if where == "scheme" else {"credentialId": "app"}
    shop = Shop(signing, client, **fields)
    shop.own = {}
    await shop.come_back()
    with pytest.raises(UnresolvedError):
        await shop.token_manager().fresh(shop.connection, "main")
    key = "consumerSecret" if where == "scheme" else "clientSecret"
    shop.lookups.put_secret("consumer", clientId=CONSUMER, **{key: SECRET})
    held = credential("app", "oauth2-client", "clients", secretRef={"name": "consumer"}, credentialId="app")
    shop.lookups.objects.append(Shop.with_credentials(held, name="consumers"))
    await shop.token_manager().fresh(shop.connection, "main")
    assert len(signing.issued) == 1


async def test_tokens_that_were_given_whole_are_left_alone(
    signing: OAuth1Provider, client: TokenClient
) -> None:
    shop = Shop(signing, client)
    shop.store(oauthToken="t", oauthTokenSecret="s")
    assert await shop.token_manager().fresh(shop.connection, "main") is None
    assert signing.seen == []
