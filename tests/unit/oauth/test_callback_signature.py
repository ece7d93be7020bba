"""Callbacks that a provider signs: codes of others are not exchanged."""

import hashlib
import hmac
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.oauth.token_shop import NOW, Provider, Shop, kept
from tieline_core.credentials.grant_request import CALLBACK_REFUSED
from tieline_core.credentials.tenants import tenant_of
from tieline_protocol.oauth.callback_signature import CallbackRefusedError, CallbackSignature
from tieline_protocol.oauth.token_client import RefusedError

SCHEME = {
    "callbackSignature": {
        "parameter": "hmac",
        "unsigned": ["signature"],
        "expect": [{"parameter": "shop", "value": "{shop}.myshopify.com"}],
        "timestampParameter": "timestamp",
        "maxAge": "24h",
    }
}
SECRET = "hush"  # the client secret of Shopify's documented example
CODE, STATE = "0907a61c0c8d55e99db179b68161bc00", "0.6784241404160823"
DIGEST = "700e2dadb827fcc8609e9d5ce208b2e9cdaab9df07390d2cbca10d7c328fc4bf"
QUERY = f"code={CODE}&hmac={DIGEST}&shop=some-shop.myshopify.com&state={STATE}&timestamp=1337178173"
THEN = datetime.fromtimestamp(1337178173, UTC)


def check(query: str, *, scheme: dict[str, Any] = SCHEME, **changed: Any) -> None:
    signature = CallbackSignature.of(scheme)
    assert signature is not None
    usual = {"secret": SECRET, "code": CODE, "state": STATE, "variables": {"shop": "some-shop"}, "now": THEN}
    signature.check(query, **{**usual, **changed})


def signed(text: str, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    "query", [QUERY, f"?{QUERY}", f"{QUERY}&signature=old", "&".join(reversed(QUERY.split("&")))]
)
def test_the_documented_example_is_accepted(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "changed", "problem"),
    [
        (QUERY.replace(DIGEST, "0" * 64), {}, "not signed"),
        (QUERY.replace(f"&hmac={DIGEST}", ""), {}, "not signed"),
        (QUERY.replace(DIGEST, DIGEST.upper()), {}, "not signed"),
        (QUERY.replace("some-shop", "evil-shop"), {"variables": {"shop": "evil-shop"}}, "not signed"),
        (f"{QUERY}&more=1", {}, "not signed"),
        (f"{QUERY}&shop=evil.myshopify.com", {}, "twice"),
        (QUERY, {"secret": "another"}, "not signed"),
        (QUERY, {"secret": ""}, "without the client secret"),
        (QUERY, {"variables": {"shop": "other-shop"}}, 'parameter "shop"'),
        (QUERY, {"variables": {}}, 'a value for "shop"'),
        (QUERY, {"code": "another"}, 'parameter "code"'),
        (QUERY, {"state": "another"}, 'parameter "state"'),
        (QUERY, {"now": THEN + timedelta(hours=25)}, "too old"),
        ("&".join(f"p{number}=1" for number in range(40)), {}, "more than"),
        ("code=\udc80&hmac=\udc80", {}, "not signed"),
    ],
)
def test_a_callback_that_was_changed_is_refused(query: str, changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(CallbackRefusedError, match=problem) as caught:
        check(query, **changed)
    assert not any(secret in str(caught.value) for secret in (SECRET, CODE, STATE, DIGEST))


@pytest.mark.parametrize("text", ["code=c&host=YWRtaW4%3D&state=s", "code=c&host=YWRtaW4=&state=s"])
def test_values_may_be_signed_as_sent_or_decoded(text: str) -> None:
    query = f"code=c&host=YWRtaW4%3D&state=s&hmac={signed(text)}"
    check(query, scheme={"callbackSignature": {"parameter": "hmac"}}, code="c", state="s")


def test_a_value_cannot_be_made_two_parameters() -> None:
    scheme = {"callbackSignature": {"parameter": "hmac"}}
    digest = signed("code=c%26state=s")
    whole = f"code=c%26state%3Ds&hmac={digest}"
    with pytest.raises(CallbackRefusedError, match='"state"'):
        check(whole, scheme=scheme, code="c&state=s", state="s")
    with pytest.raises(CallbackRefusedError, match="not signed"):
        check(f"code=c&state=s&hmac={digest}", scheme=scheme, code="c", state="s")


def test_other_names_and_forms_of_the_signature() -> None:
    scheme = {"codeParameter": "auth", "callbackSignature": {"parameter": "sig", "encoding": "base64"}}
    digest = quote(b64encode(bytes.fromhex(signed("auth=c&state=s"))), safe="")
    check(f"auth=c&state=s&sig={digest}", scheme=scheme, code="c", state="s")


def test_a_scheme_without_a_signature_looks_for_none() -> None:
    assert CallbackSignature.of({"keep": []}) is None


def test_expected_variables_identify_the_tenant() -> None:
    scheme = {"oauth2": {"tokenUrl": "https://a.example/token", "authorization": SCHEME}}
    assert tenant_of({"variables": {"shop": "a"}}, {}, scheme).identifying == {"shop": "a"}


def shop_with_signature(provider: Provider) -> Shop:
    scheme = {"callbackSignature": {**SCHEME["callbackSignature"], "expect": []}}
    return Shop(provider, "oauth2-code", authorization=scheme)


def store(shop: Shop, state: str, **values: str) -> None:
    shop.store(code="c0de", state=state, clientSecret="s3cret", **values)


async def test_a_forged_callback_reaches_no_token_endpoint(provider: Provider, token_manager_of: Any) -> None:
    shop = shop_with_signature(provider)
    state = await shop.authorise()
    text = f"code=c0de&state={state}&timestamp={int(NOW.timestamp())}"
    for callback in ({}, {"callback": text}, {"callback": f"{text}&hmac={signed(text, 'guessed')}"}):
        store(shop, state, **callback)
        with pytest.raises(RefusedError) as caught:
            await token_manager_of(shop).fresh(shop.connection, "main", retry=True)
        assert caught.value.code == CALLBACK_REFUSED
        assert "callback" in str(caught.value)
    assert provider.asked == []
    store(shop, state, callback=f"{text}&hmac={signed(text, 's3cret')}")
    assert (await kept(token_manager_of(shop), shop, retry=True)).access_token == "at1"


async def test_a_rolled_client_secret_does_not_end_tokens(provider: Provider, token_manager_of: Any) -> None:
    shop = shop_with_signature(provider)
    state = await shop.authorise()
    text = f"code=c0de&state={state}&timestamp={int(NOW.timestamp())}"
    callback = f"{text}&hmac={signed(text, 's3cret')}"
    store(shop, state, callback=callback)
    await kept(token_manager_of(shop), shop)
    shop.store(code="c0de", state=state, clientSecret="rolled", callback=callback)
    shop.now += timedelta(days=3)
    assert (await kept(token_manager_of(shop), shop)).access_token == "at2"
