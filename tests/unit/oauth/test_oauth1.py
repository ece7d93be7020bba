"""How token credentials of OAuth 1.0 come about, at a provider that checks with code of its own."""

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.unit.oauth.memory_kube import MemoryKube
from tests.unit.oauth.memory_lookups import ACME, MemoryLookups, credential, make, oauth2, system
from tests.unit.oauth.oauth1_provider import CONSUMER, SECRET, OAuth1Provider
from tieline_core.ids import object_id
from tieline_core.names import tokens_name
from tieline_core.oauth.egress import Egress
from tieline_core.oauth.keeping import Keeper, UnresolvedError
from tieline_core.oauth.oauth1_requests import Consumer, ParameterError, authorization_url, check_params
from tieline_core.oauth.oauth1_tokens import Issued, temporary_credentials, token_credentials
from tieline_core.oauth.refreshing import Refresher
from tieline_core.oauth.states import OAuthStates, Pending, new_state
from tieline_core.oauth.tokens import MisconfiguredError, RefusedError, TokenClient, UnreachableError
from tieline_core.resources.auth_schemes import OAuth1Endpoint

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CALLBACK = "https://tieline.example/oauth2/callback?state=S.1"
STYLES = ("AUTH_STYLE_AUTHORIZATION_HEADER", "AUTH_STYLE_FORM", "AUTH_STYLE_QUERY")
METHODS = ("HMAC-SHA1", "HMAC-SHA256", "HMAC-SHA512", "RSA-SHA1", "RSA-SHA256", "RSA-SHA512", "PLAINTEXT")
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
PUBLIC = (
    KEY.public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)


@pytest.fixture
async def provider() -> AsyncIterator[OAuth1Provider]:
    found, app = OAuth1Provider(public=PUBLIC), web.Application()
    found.add_to(app)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


@pytest.fixture
async def client() -> AsyncIterator[TokenClient]:
    connector = Egress.parse(allowed=["127.0.0.0/8"]).connector()
    async with aiohttp.ClientSession(connector=connector) as session:
        yield TokenClient(session, timeout=5)


def consumer(method: str = "HMAC-SHA1") -> Consumer:
    return Consumer(key=CONSUMER, secret=PRIVATE if method.startswith("RSA") else SECRET, method=method)


def endpoint(url: str, *params: dict[str, Any], style: str = STYLES[0]) -> OAuth1Endpoint:
    return OAuth1Endpoint.model_validate(
        {"url": url, "additionalParamConfigs": params, "parameterTransmission": style}
    )


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("method", METHODS)
async def test_rfc_5849_read_anew_accepts_both_requests(
    provider: OAuth1Provider, client: TokenClient, method: str, style: str
) -> None:
    params = [
        {"parameterName": "scope", "location": "LOCATION_QUERY", "value": "a b&c=ü"},
        {"parameterName": "note", "location": "LOCATION_BODY", "value": "x+y/ü"},
        {"parameterName": "xoauth_lang", "location": "LOCATION_HEADER_PARAMETER", "value": 'de-ü, "1"'},
    ]
    first = endpoint(f"{provider.url}/a/temporary?z=1%2F2&z=0", *params, style=style)
    issued = await temporary_credentials(client, first, consumer(method), callback=CALLBACK, params={})
    seen = provider.parameters()
    assert seen["oauth_callback"] == CALLBACK
    assert (seen["scope"], seen["note"], seen["xoauth_lang"]) == ("a b&c=ü", "x+y/ü", 'de-ü, "1"')
    assert provider.seen[-1].headers.get("Authorization", "").startswith("OAuth ") is (style == STYLES[0])
    assert (b"oauth_signature" in provider.seen[-1].body) is (style == STYLES[1])
    assert ("oauth_signature" in str(provider.seen[-1].url)) is (style == STYLES[2])
    provider.callbacks[issued.token] = "https://x.example?state=s"
    back = provider.agree(f"https://x.example?oauth_token={issued.token}")
    second = endpoint(f"{provider.url}/a/token", *params, style=style)
    got = await token_credentials(
        client, second, consumer(method), temporary=issued, verifier=back["oauthVerifier"], params={}
    )
    assert provider.issued == {got.token: got.secret}
    with pytest.raises(RefusedError, match="http_401"):
        await token_credentials(
            client, second, consumer(method), temporary=issued, verifier=back["oauthVerifier"], params={}
        )


async def test_each_parameter_goes_where_its_location_says_under_its_target_name(
    provider: OAuth1Provider, client: TokenClient
) -> None:
    params: list[dict[str, Any]] = [
        {"parameterName": "ignored", "location": "LOCATION_IGNORE", "value": "no", "required": True},
        {"parameterName": "nothing", "value": "no"},
        {"parameterName": "body", "location": "LOCATION_BODY", "value": "b", "targetName": "in_body"},
        {"parameterName": "head", "location": "LOCATION_HEADER", "value": "h", "targetName": "X-Head"},
        {"parameterName": "query", "location": "LOCATION_QUERY", "value": "q", "targetName": "in_query"},
        {"parameterName": "shop", "location": "LOCATION_ENDPOINT", "value": "ä/b", "targetName": "name"},
        {
            "parameterName": "oauth",
            "location": "LOCATION_HEADER_PARAMETER",
            "value": "o",
            "targetName": "x_o",
        },
        {
            "parameterName": "later",
            "location": "LOCATION_QUERY",
            "value": "no",
            "usages": ["USAGE_TOKEN_REQUEST_ENDPOINT"],
        },
        {
            "parameterName": "now",
            "location": "LOCATION_QUERY",
            "value": "yes",
            "usages": ["USAGE_TEMP_CREDENTIAL_ENDPOINT"],
        },
        {"parameterName": "any", "location": "LOCATION_QUERY", "value": "yes", "usages": ["USAGE_UNKNOWN"]},
    ]
    first = endpoint(f"{provider.url}/{{name}}/temporary", *params)
    await temporary_credentials(client, first, consumer(), callback=CALLBACK, params={})
    seen = provider.seen[-1]
    assert seen.url.raw_path == "/%C3%A4%2Fb/temporary"
    assert dict(seen.url.query) == {"in_query": "q", "now": "yes", "any": "yes"}
    assert seen.body == b"in_body=b"
    assert seen.headers["X-Head"] == "h"
    assert ', x_o="o"' in seen.headers["Authorization"]
    assert b"no" not in seen.body


def test_a_user_may_change_what_is_modifiable_and_nothing_else() -> None:
    params: list[dict[str, Any]] = [
        {"parameterName": "shop", "location": "LOCATION_ENDPOINT", "modifiable": True, "required": True},
        {"parameterName": "fixed", "location": "LOCATION_QUERY", "value": "1"},
    ]
    one = endpoint("https://{shop}.example/authorize", *params)
    url = authorization_url(one, token="t/1", params={"shop": "acme", "fixed": "2"})
    assert url == "https://acme.example/authorize?fixed=1&oauth_token=t%2F1"
    check_params({None: one}, {"shop": "acme"})
    for given, told in (
        ({}, "is required"),
        ({"shop": "acme", "fixed": "2"}, "may not be changed"),
        ({"shop": "acme", "other": "2"}, "none of the auth scheme's"),
        ({"shop": "evil.com/"}, "host's name"),
        ({"shop": "a@evil.com"}, "host's name"),
        ({"shop": "a\r\nb"}, "cannot be sent"),
    ):
        with pytest.raises(ParameterError, match=told):
            check_params({None: one}, given)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ([{"parameterName": "oauth_token", "location": "LOCATION_QUERY", "value": "x"}], "protocol sets"),
        ([{"parameterName": "Host", "location": "LOCATION_HEADER", "value": "x"}], "as the header"),
        ([{"parameterName": "a", "location": "LOCATION_BODY", "required": True}], "lacks its value"),
    ],
)
async def test_parameters_that_cannot_be_sent_are_told_by_name_and_nobody_is_asked(
    provider: OAuth1Provider, client: TokenClient, params: list[dict[str, Any]], told: str
) -> None:
    one = endpoint(f"{provider.url}/a/temporary", *params)
    with pytest.raises(ParameterError, match=told):
        await temporary_credentials(client, one, consumer(), callback=CALLBACK, params={})
    with pytest.raises(MisconfiguredError, match="placeholders"):
        await temporary_credentials(
            client, endpoint(f"{provider.url}/{{x}}"), consumer(), callback=CALLBACK, params={}
        )
    assert provider.seen == []


async def test_answers_are_told_apart_and_neither_messages_nor_debug_logs_hold_a_secret(
    provider: OAuth1Provider, client: TokenClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    one = endpoint(f"{provider.url}/a/token")
    given = Issued(token="t0ken", secret="t0ken-s3cret")

    async def asked(method: str = "HMAC-SHA1", secret: str = SECRET) -> str:
        who = Consumer(key=CONSUMER, secret=secret, method=method)
        with pytest.raises((RefusedError, UnreachableError, MisconfiguredError)) as raised:
            await token_credentials(client, one, who, temporary=given, verifier="ver1fier", params={})
        told = f"{type(raised.value).__name__}: {raised.value} {raised.value!r}"
        assert not any(secret in told for secret in ("t0ken", "ver1fier", SECRET))
        return told

    assert (await asked()).startswith("RefusedError")
    provider.failing, provider.problem = 401, "token_expired"
    assert "token_expired" in await asked()
    provider.problem = "t0ken"
    assert "(http_401)" in await asked()
    provider.failing = 503
    assert (await asked()).startswith("UnreachableError")
    assert "private key in PEM" in await asked("RSA-SHA1", "no key")
    await asked("PLAINTEXT")
    logged = caplog.text
    assert not any(secret in logged for secret in ("t0ken", "ver1fier", "consumer%20secret", SECRET))


async def test_a_provider_that_does_not_confirm_the_callback_is_not_used(
    provider: OAuth1Provider, client: TokenClient
) -> None:
    provider.confirms = False
    with pytest.raises(MisconfiguredError, match="does not confirm the callback"):
        await temporary_credentials(
            client, endpoint(f"{provider.url}/a/temporary"), consumer(), callback=CALLBACK, params={}
        )


class Shop:
    """A connection whose user has come back from the provider."""

    def __init__(self, provider: OAuth1Provider, client: TokenClient, **scheme: Any) -> None:
        self.kube, self.client, self.provider, self.now = MemoryKube(), client, provider, NOW
        self.fields = {"consumerKey": CONSUMER, "tokenEndpoint": {"url": f"{provider.url}/a/token"}, **scheme}
        self.schemes = [
            {"id": "oauth", "type": "oauth1", "oauth1": self.fields},
            oauth2("clients", grant="clientCredentials"),
        ]
        self.system = system(*self.schemes)
        self.connection = self.kube.put(self.with_credentials(credential(kind="oauth1")))
        self.lookups = MemoryLookups(self.system, self.connection)
        self.states = OAuthStates(self.kube, seconds=600, now=lambda: self.now)
        self.own = {"consumerSecret": SECRET}

    @staticmethod
    def with_credentials(*items: dict[str, Any], name: str = "login") -> dict[str, Any]:
        return make("Connection", name, name=name, systemRef={"name": "shop"}, credentials=list(items))

    async def come_back(self, **pending: str) -> dict[str, str]:
        at = endpoint(f"{self.provider.url}/a/temporary")
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
        await self.states.remember(state, Pending(**{**given, **pending}), system=self.system)
        back = self.provider.agree(f"https://x.example?oauth_token={issued.token}")
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

    def keeper(self) -> Keeper:
        return Keeper(
            self.kube,
            client=self.client,
            lookups=self.lookups,
            states=self.states,
            refresher=Refresher(self.kube, poll=0.001, now=lambda: self.now),
            now=lambda: self.now,
        )

    @property
    def kept(self) -> dict[str, str]:
        secret = self.kube.objects["Secret", "acme", tokens_name("login", "main")]
        return {key: b64decode(value).decode() for key, value in secret["data"].items()}

    @property
    def asked(self) -> int:
        return sum(seen.url.path.endswith("/token") for seen in self.provider.seen)


async def test_a_verifier_is_exchanged_once_and_its_token_has_a_secret_of_its_own(
    provider: OAuth1Provider, client: TokenClient
) -> None:
    shop = Shop(provider, client)
    await shop.come_back()
    keepers = [shop.keeper(), shop.keeper(), shop.keeper()]
    found = [await keeper.fresh(shop.connection, "main") for keeper in keepers]
    ((token, secret),) = provider.issued.items()
    assert shop.kept == {"accessToken": token, "oauthTokenSecret": secret, "tokenType": "OAuth"}
    assert [one.due_at for one in found if one] == [None] * 3
    assert shop.asked == 1
    assert shop.kube.secrets("tieline.dev/oauth-state") == []
    await shop.come_back()
    await keepers[0].fresh(shop.connection, "main")
    assert shop.kept["accessToken"] != token, "other inputs, other tokens"


async def test_what_a_user_gave_at_the_start_goes_along_with_the_verifier(
    provider: OAuth1Provider, client: TokenClient
) -> None:
    at = {
        "url": f"{provider.url}/{{shop}}/token",
        "additionalParamConfigs": [
            {"parameterName": "shop", "location": "LOCATION_ENDPOINT", "modifiable": True, "required": True}
        ],
    }
    shop = Shop(provider, client, tokenEndpoint=at)
    await shop.come_back(oauth1_params=json.dumps({"shop": "north"}))
    await shop.keeper().fresh(shop.connection, "main")
    assert provider.seen[-1].url.path == "/north/token"


async def test_a_state_of_elsewhere_another_token_or_a_used_one_is_refused_and_nobody_is_asked(
    provider: OAuth1Provider, client: TokenClient
) -> None:
    shop = Shop(provider, client)
    for pending in (
        {"system_id": "01ARZ3NDEKTSV4RRFFQ69G5FAX"},
        {"credential_id": "another"},
        {"client_id": "another"},
        {"oauth1_token": "another"},
        {"oauth1_token": ""},
    ):
        await shop.come_back(**pending)
        with pytest.raises(RefusedError, match="connect again"):
            await shop.keeper().fresh(shop.connection, "main")
    back = await shop.come_back()
    shop.store(**{**back, "oauthToken": "another"})
    with pytest.raises(RefusedError, match="begun for another"):
        await shop.keeper().fresh(shop.connection, "main")
    assert shop.asked == 0
    shop.store(**back)
    await shop.keeper().fresh(shop.connection, "main")
    other = Shop.with_credentials(credential("main", "oauth1"), name="other")
    other = shop.kube.put(other)
    shop.lookups.objects.append(other)
    with pytest.raises(RefusedError, match="not known here"):
        await shop.keeper().fresh(other, "main")
    await shop.come_back()
    shop.now += timedelta(minutes=11)
    with pytest.raises(RefusedError, match="expired"):
        await shop.keeper().fresh(shop.connection, "main")
    assert shop.asked == 1


async def test_a_refused_verifier_is_not_tried_again_and_one_whose_provider_is_away_is(
    provider: OAuth1Provider, client: TokenClient
) -> None:
    shop = Shop(provider, client)
    back = await shop.come_back()
    provider.failing = 503
    with pytest.raises(UnreachableError):
        await shop.keeper().fresh(shop.connection, "main")
    provider.failing = 0
    shop.now += timedelta(seconds=11)
    await shop.keeper().fresh(shop.connection, "main")
    await shop.come_back()
    shop.store(**{**(await shop.come_back()), "oauthVerifier": "made up"})
    for _ in range(3):
        with pytest.raises(RefusedError, match="verifier_invalid"):
            await shop.keeper().fresh(shop.connection, "main")
        shop.now += timedelta(hours=2)
    assert shop.asked == 3
    assert "made up" not in json.dumps(shop.kube.objects[("Secret", "acme", tokens_name("login", "main"))])
    assert back["oauthVerifier"] not in shop.kept.values()


@pytest.mark.parametrize("where", ["scheme", "credential"])
async def test_the_consumers_secret_may_lie_with_the_system_or_with_a_credential(
    provider: OAuth1Provider, client: TokenClient, where: str
) -> None:
    fields = {"secretRef": {"name": "consumer"}} if where == "scheme" else {"credentialId": "app"}
    shop = Shop(provider, client, **fields)
    shop.own = {}
    await shop.come_back()
    with pytest.raises(UnresolvedError):
        await shop.keeper().fresh(shop.connection, "main")
    key = "consumerSecret" if where == "scheme" else "clientSecret"
    shop.lookups.put_secret("consumer", clientId=CONSUMER, **{key: SECRET})
    held = credential("app", "oauth2-client", "clients", secretRef={"name": "consumer"}, credentialId="app")
    shop.lookups.objects.append(Shop.with_credentials(held, name="consumers"))
    await shop.keeper().fresh(shop.connection, "main")
    assert len(provider.issued) == 1


async def test_tokens_that_were_given_whole_are_left_alone(
    provider: OAuth1Provider, client: TokenClient
) -> None:
    shop = Shop(provider, client)
    shop.store(oauthToken="t", oauthTokenSecret="s")
    assert await shop.keeper().fresh(shop.connection, "main") is None
    assert provider.seen == []
