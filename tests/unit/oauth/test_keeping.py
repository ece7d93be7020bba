"""How a credential's tokens come about and stay good, and that no provider is asked twice for one."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import aiohttp
import pytest
from aiohttp import web

from tests.unit.oauth.memory_kube import MemoryKube
from tests.unit.oauth.memory_lookups import ACME, MemoryLookups, credential, make, oauth2, system
from tieline_core.ids import object_id
from tieline_core.names import tokens_name
from tieline_core.oauth import stored
from tieline_core.oauth.egress import Egress
from tieline_core.oauth.keeping import Keeper, Kept, SecretTakenError, UnresolvedError
from tieline_core.oauth.refreshing import Refresher
from tieline_core.oauth.states import OAuthStates, Pending, new_state
from tieline_core.oauth.tokens import RefusedError, TokenClient, Tokens, UnreachableError

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CALLBACK = "https://tieline.example/oauth2/callback"
PKCE = "v" * 43


@dataclass
class Provider:
    """A token endpoint that keeps what it is asked, and answers with a new pair of tokens or as it is told."""

    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    answers: list[Mapping[str, Any] | int] = field(default_factory=list)

    async def token(self, request: web.Request) -> web.Response:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.asked.append(form)
        self.paths.append(request.path)
        await asyncio.sleep(0.01)
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, int):
            return web.Response(status=answer)
        if "error" in answer:
            return web.json_response(answer, status=400)
        number = len(self.asked)
        issued = {"access_token": f"at{number}", "refresh_token": f"rt{number}", "expires_in": 3600}
        return web.json_response({**issued, **answer})


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    app = web.Application()
    app.router.add_post("/token", found.token)
    app.router.add_post("/refresh", found.token)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/token"
    yield found
    await runner.cleanup()


class Shop:
    """One connection with one credential, and as many keepers as a test wants processes."""

    def __init__(self, provider: Provider, kind: str, *, grant: str = "authorizationCode", **scheme: Any):
        self.kube = MemoryKube()
        self.now = NOW
        self.system = system(oauth2(grant=grant, tokenUrl=provider.url, **scheme))
        self.connection = self.kube.put(
            make(
                "Connection",
                "login",
                name="Login",
                systemRef={"name": "shop"},
                credentials=[credential(kind=kind)],
            )
        )
        self.lookups = MemoryLookups(self.system, self.connection)
        self.states = OAuthStates(self.kube, seconds=600, now=lambda: self.now)

    def store(self, **values: str) -> None:
        """What the person's Secret holds, for caches and cluster alike."""
        self.lookups.put_secret("main", **values)
        data = {key: b64encode(value.encode()).decode() for key, value in values.items()}
        metadata = {"name": "main", "namespace": "acme"}
        self.kube.put(
            {"kind": "Secret", "type": "tieline.dev/credential", "metadata": metadata, "data": data}
        )

    async def authorise(self, *, code: str = "c0de", **pending: Any) -> str:
        """A user has come back with a code, which is stored with its state."""
        state = new_state(ACME)
        given = {
            "organisation_id": ACME,
            "system_id": object_id(self.system),
            "credential_id": "main",
            "client_id": "app",
            "redirect_uri": CALLBACK,
            "requested_by": "someone",
            "code_verifier": PKCE,
            "scopes": "orders offline_access",
        }
        await self.states.remember(state, Pending(**{**given, **pending}), system=self.system)
        self.store(code=code, state=state)
        return state

    @property
    def tokens_secret(self) -> dict[str, Any]:
        return self.kube.objects["Secret", "acme", tokens_name("login", "main")]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=Egress.parse(allowed=["127.0.0.0/8"]).connector()) as opened:
        yield opened


@pytest.fixture
def keeper_of(session: aiohttp.ClientSession) -> Any:
    def make_keeper(shop: Shop) -> Keeper:
        return Keeper(
            shop.kube,
            client=TokenClient(session, timeout=5, now=lambda: shop.now),
            lookups=shop.lookups,
            states=shop.states,
            refresher=Refresher(shop.kube, poll=0.001, now=lambda: shop.now),
            now=lambda: shop.now,
        )

    return make_keeper


async def kept(keeper: Keeper, shop: Shop, **options: Any) -> Tokens:
    found = await keeper.fresh(shop.connection, "main", **options)
    assert isinstance(found, Kept)
    return found.tokens


async def test_a_code_is_exchanged_with_verifier_and_redirect_and_its_tokens_have_a_secret_of_their_own(
    provider: Provider, keeper_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code", pkce=True, additionalTokenParams="audience=shop")
    await shop.authorise()
    before = dict(shop.kube.objects["Secret", "acme", "main"])
    found = await keeper_of(shop).fresh(shop.connection, "main")
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
    assert secret["metadata"]["annotations"][stored.DUE_AT] == "2026-01-01T12:45:00Z"
    assert stored.CLAIMED_BY not in secret["metadata"]["annotations"]
    held = stored.read(secret).tokens
    assert (held.access_token, held.refresh_token) == ("at1", "rt1")
    assert held.scopes == ("orders", "offline_access"), "asked for, as the answer names none"
    assert shop.kube.objects["Secret", "acme", "main"] == before
    assert shop.kube.secrets("tieline.dev/oauth-state") == []


async def test_granted_scopes_are_kept_through_refreshes_that_name_none(
    provider: Provider, keeper_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code", refreshUrl=provider.url.replace("/token", "/refresh"))
    await shop.authorise()
    provider.answers = [{"scope": "orders"}, {"refresh_token": None}]
    keeper = keeper_of(shop)
    assert (await kept(keeper, shop)).scopes == ("orders",)
    shop.now += timedelta(minutes=46)
    renewed = await kept(keeper, shop)
    assert (renewed.access_token, renewed.refresh_token, renewed.scopes) == ("at2", "rt1", ("orders",))
    assert provider.asked[1]["refresh_token"] == "rt1"
    assert provider.paths == ["/token", "/refresh"]


async def test_many_processes_exchange_a_code_with_one_request(provider: Provider, keeper_of: Any) -> None:
    shop = Shop(provider, "oauth2-code")
    await shop.authorise()
    keepers = [keeper_of(shop) for _ in range(4)]
    found = await asyncio.gather(*(kept(one, shop, retry=n % 2 == 0) for n, one in enumerate(keepers * 10)))
    assert {one.access_token for one in found} == {"at1"}
    assert len(provider.asked) == 1


async def test_a_refused_code_is_asked_about_once_by_many_and_not_again(
    provider: Provider, keeper_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code")
    await shop.authorise()
    provider.answers = [{"error": "invalid_grant", "error_description": "c0de"}] * 9
    keepers = [keeper_of(shop) for _ in range(4)]
    calls = (one.fresh(shop.connection, "main", retry=True) for one in keepers)
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in found] == [RefusedError] * 4
    shop.now += timedelta(days=1)
    with pytest.raises(RefusedError) as caught:
        await keepers[0].fresh(shop.connection, "main")
    assert caught.value.code == "invalid_grant"
    assert "c0de" not in str(caught.value)
    assert len(provider.asked) == 1


async def test_a_new_code_replaces_the_tokens_of_the_old_one(provider: Provider, keeper_of: Any) -> None:
    shop = Shop(provider, "oauth2-code")
    keeper = keeper_of(shop)
    await shop.authorise()
    assert (await kept(keeper, shop)).access_token == "at1"
    await shop.authorise(code="another")
    assert (await kept(keeper, shop)).access_token == "at2"
    assert [form["code"] for form in provider.asked] == ["c0de", "another"]


async def test_a_cache_that_lags_behind_does_not_bring_old_tokens_back(
    provider: Provider, keeper_of: Any
) -> None:
    shop = Shop(provider, "oauth2-token")
    shop.store(accessToken="mine1", refreshToken="r1")
    keeper = keeper_of(shop)
    assert (await kept(keeper, shop)).access_token == "mine1"
    shop.store(accessToken="mine2", refreshToken="r2")
    assert (await kept(keeper, shop)).access_token == "mine2"
    shop.lookups.put_secret("main", accessToken="mine1", refreshToken="r1")
    assert (await kept(keeper, shop)).access_token == "mine2"
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
    provider: Provider, keeper_of: Any, pending: dict[str, Any], code: str
) -> None:
    shop = Shop(provider, "oauth2-code")
    await shop.authorise(**pending)
    with pytest.raises(RefusedError) as caught:
        await kept(keeper_of(shop), shop)
    assert caught.value.code == code
    assert provider.asked == []


async def test_a_state_is_good_once_and_for_a_while(provider: Provider, keeper_of: Any) -> None:
    shop = Shop(provider, "oauth2-code")
    state = await shop.authorise()
    keeper = keeper_of(shop)
    await kept(keeper, shop)
    shop.store(code="stolen", state=state)
    with pytest.raises(RefusedError) as caught:
        await kept(keeper, shop)
    assert caught.value.code == "state_unknown"
    await shop.authorise(code="late")
    shop.now += timedelta(minutes=11)
    with pytest.raises(RefusedError) as caught:
        await kept(keeper, shop)
    assert caught.value.code == "state_expired"
    shop.store(code="no state")
    with pytest.raises(RefusedError) as caught:
        await kept(keeper, shop)
    assert caught.value.code == "state_unknown"
    assert len(provider.asked) == 1


async def test_an_exchange_that_an_outage_interrupted_is_taken_up_again_with_the_same_state(
    provider: Provider, keeper_of: Any
) -> None:
    shop = Shop(provider, "oauth2-code")
    await shop.authorise()
    provider.answers = [503]
    with pytest.raises(UnreachableError):
        await kept(keeper_of(shop), shop)
    with pytest.raises(UnreachableError):
        await kept(keeper_of(shop), shop)
    assert len(provider.asked) == 1
    shop.now += timedelta(minutes=11)
    assert (await kept(keeper_of(shop), shop)).access_token == "at2"


async def test_client_credentials_are_fetched_and_fetched_again(provider: Provider, keeper_of: Any) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={}, defaultScopes=["read"])
    shop.store(clientId="me", clientSecret="s3cret")
    provider.answers = [{"refresh_token": None}] * 3
    keeper = keeper_of(shop)
    assert (await kept(keeper, shop)).access_token == "at1"
    assert provider.asked == [{"grant_type": "client_credentials", "scope": "read"}]
    shop.now += timedelta(minutes=46)
    assert (await kept(keeper, shop)).access_token == "at2"
    assert (await kept(keeper, shop, rejected="at2")).access_token == "at3"
    assert "s3cret" not in str(shop.tokens_secret)


async def test_a_corrected_client_secret_lifts_a_refusal(provider: Provider, keeper_of: Any) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="wrong")
    provider.answers = [{"error": "invalid_client"}]
    keeper = keeper_of(shop)
    for _ in range(3):
        with pytest.raises(RefusedError):
            await kept(keeper, shop)
    assert len(provider.asked) == 1
    shop.store(clientId="me", clientSecret="right")
    assert (await kept(keeper, shop)).access_token == "at2"


async def test_a_refused_client_is_tried_again_after_an_hour(provider: Provider, keeper_of: Any) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="s3cret")
    provider.answers = [{"error": "invalid_client"}]
    with pytest.raises(RefusedError):
        await kept(keeper_of(shop), shop)
    shop.now += timedelta(minutes=61)
    assert (await kept(keeper_of(shop), shop)).access_token == "at2"


async def test_a_password_brings_tokens_and_new_ones_when_the_refresh_token_has_ended(
    provider: Provider, keeper_of: Any
) -> None:
    shop = Shop(provider, "oauth2-password", grant="password")
    shop.store(username="ada", password="pa&ss")
    keeper = keeper_of(shop)
    await kept(keeper, shop)
    shop.now += timedelta(minutes=46)
    provider.answers = [{"error": "invalid_grant"}]
    assert (await kept(keeper, shop)).access_token == "at3"
    kinds = [form["grant_type"] for form in provider.asked]
    assert kinds == ["password", "refresh_token", "password"]
    assert provider.asked[0]["password"] == "pa&ss"


async def test_given_tokens_are_used_as_they_are_until_they_are_due(
    provider: Provider, keeper_of: Any
) -> None:
    shop = Shop(provider, "oauth2-token")
    shop.store(accessToken="mine", refreshToken="r0", scopes="a b")
    keeper = keeper_of(shop)
    assert (await kept(keeper, shop)).access_token == "mine"
    assert provider.asked == []
    assert (await kept(keeper, shop, rejected="mine")).access_token == "at1"
    assert provider.asked[0]["refresh_token"] == "r0"
    assert stored.read(shop.tokens_secret).tokens.scopes == ("a", "b")
    assert b64decode(shop.kube.objects["Secret", "acme", "main"]["data"]["accessToken"]) == b"mine"


async def test_given_tokens_without_a_refresh_token_need_no_secret_and_end_some_day(
    provider: Provider, keeper_of: Any
) -> None:
    shop = Shop(provider, "oauth2-token")
    shop.store(accessToken="mine", expiresAt="2026-01-01T12:10:00Z")
    keeper = keeper_of(shop)
    found = await keeper.fresh(shop.connection, "main")
    assert (found.tokens.access_token, found.due_at) == ("mine", NOW + timedelta(minutes=10))
    assert ("Secret", "acme", tokens_name("login", "main")) not in shop.kube.objects
    for options in ({"rejected": "mine"}, {}):
        with pytest.raises(RefusedError) as caught:
            await kept(keeper, shop, **options)
        assert caught.value.code == "not_renewable"
        shop.now += timedelta(minutes=11)
    assert provider.asked == []


async def test_what_is_missing_is_said_before_anybody_is_asked(provider: Provider, keeper_of: Any) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    with pytest.raises(UnresolvedError) as caught:
        await kept(keeper_of(shop), shop)
    assert caught.value.problems[0].reason == "SecretNotFound"
    assert provider.asked == []


async def test_a_state_of_nothing_is_free_again(provider: Provider, keeper_of: Any) -> None:
    shop = Shop(provider, "oauth2-code")
    state = await shop.authorise()
    provider.answers = [503]
    keeper = keeper_of(shop)
    with pytest.raises(UnreachableError):
        await kept(keeper, shop)
    with pytest.raises(RefusedError):
        await shop.states.look(state, namespace="acme")
    await keeper.give_up(shop.connection, "main")
    assert (await shop.states.look(state, namespace="acme")).client_id == "app"


async def test_a_storm_of_calls_is_one_look_at_the_cluster(provider: Provider, keeper_of: Any) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="s3cret")
    keeper = keeper_of(shop)
    await kept(keeper, shop)
    shop.kube.reads = 0
    found = await asyncio.gather(*(kept(keeper, shop, rejected="at1") for _ in range(200)))
    assert {one.access_token for one in found} == {"at2"}
    assert shop.kube.reads <= 2


async def test_the_tokens_of_a_deleted_connection_are_not_handed_to_its_successor(
    provider: Provider, keeper_of: Any
) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="s3cret")
    keeper = keeper_of(shop)
    await kept(keeper, shop)
    shop.connection["metadata"]["uid"] = "another"
    with pytest.raises(UnreachableError):
        await kept(keeper, shop)
    del shop.kube.objects["Secret", "acme", tokens_name("login", "main")]
    assert (await kept(keeper, shop)).access_token == "at2"


def _foreign(**metadata: Any) -> dict[str, Any]:
    """Somebody's Secret of the name that the tokens would be kept under."""
    named = {"name": tokens_name("login", "main"), "namespace": "acme", "uid": "theirs", **metadata}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": named,
        "type": "Opaque",
        "data": {"mine": "eA=="},
    }


OWNED = {"ownerReferences": [{"kind": "Connection", "name": "login", "uid": "uid-login"}]}


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        OWNED,
        {"labels": {"tieline.dev/tokens": "true"}},
        {**OWNED, "labels": {"tieline.dev/tokens": "no"}},
    ],
    ids=["a stranger's", "owned without the label", "labelled and of nobody", "labelled otherwise"],
)
async def test_a_secret_of_the_name_that_the_platform_has_not_made_is_left_alone_and_told(
    provider: Provider, keeper_of: Any, metadata: dict[str, Any]
) -> None:
    shop = Shop(provider, "oauth2-code")
    state = await shop.authorise()
    shop.connection["metadata"]["uid"] = "uid-login"
    before = shop.kube.put(_foreign(**metadata))
    with pytest.raises(SecretTakenError) as caught:
        await kept(keeper_of(shop), shop)
    assert caught.value.problems[0].reason == "SecretNameTaken"
    assert "delete it" in str(caught.value)
    assert shop.tokens_secret == before
    assert provider.asked == []
    assert (await shop.states.look(state, namespace="acme")).client_id == "app", "and may be used afterwards"


async def test_a_stranger_who_is_first_by_a_moment_is_left_alone_too(
    provider: Provider, keeper_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="s3cret")
    create = shop.kube.create

    async def taken_first(resource: Any, obj: Any) -> Any:
        shop.kube.put(_foreign())
        return await create(resource, obj)

    monkeypatch.setattr(shop.kube, "create", taken_first)
    with pytest.raises(SecretTakenError):
        await kept(keeper_of(shop), shop)
    assert shop.tokens_secret["data"] == {"mine": "eA=="}
    assert provider.asked == []
