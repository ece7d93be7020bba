"""API keys: kept as hashes, good for one organisation, until they expire or are deleted."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from tieline_api.auth.api_keys import ApiKeys, manifest, new_key, secret_name
from tieline_api.auth.authentication import AuthenticatorChain, Caller, bearer_token
from tieline_api.auth.rate_limits import credential_of
from tieline_api.errors import ApiError
from tieline_core.identity.ids import new_id

ORGANISATION, OTHER = new_id(), new_id()
NOW = datetime(2026, 11, 21, tzinfo=UTC)


class Informer:
    """Secrets by namespace and name."""

    def __init__(self, *secrets: dict[str, Any]) -> None:
        self.found = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in secrets}

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.found.get((namespace, name))


def _keys(*secrets: dict[str, Any]) -> ApiKeys:
    namespaces = {ORGANISATION: "acme", OTHER: "other"}
    return ApiKeys(Informer(*secrets), namespaces.get, now=lambda: NOW)  # type: ignore[arg-type]


def test_a_key_acts_as_its_user_in_its_organisation_only() -> None:
    key = new_key(ORGANISATION)
    caller = _keys(manifest(key, namespace="acme", user="ci", groups=["bots"])).caller(key)
    prefix = f"tieline:api-key:{ORGANISATION.lower()}:"
    assert caller == Caller(
        username=f"{prefix}ci",
        groups=(f"{prefix}bots", "system:authenticated"),
        organisations=frozenset({ORGANISATION}),
        kind="apiKey",
        display_name="ci",
    )


def test_the_secret_holds_no_part_of_the_key() -> None:
    key = new_key(ORGANISATION)
    secret = manifest(key, namespace="acme", user="ci")
    random = key[-43:]
    text = json.dumps(secret) + "".join(base64.b64decode(value).decode() for value in secret["data"].values())
    assert random not in text
    assert key == f"tlk_{ORGANISATION.lower()}_{random}", "43 letters are 256 bits"
    assert new_key(ORGANISATION) != new_key(ORGANISATION)


@pytest.mark.parametrize(
    ("expires", "good"), [(None, True), (NOW + timedelta(seconds=1), True), (NOW, False)]
)
def test_a_key_ends_when_it_expires(expires: datetime | None, good: bool) -> None:
    key = new_key(ORGANISATION)
    secret = manifest(key, namespace="acme", user="ci", expires=expires)
    assert (_keys(secret).caller(key) is not None) == good


def _changed(secret: dict[str, Any], **changes: Any) -> dict[str, Any]:
    data = {name: base64.b64encode(str(value).encode()).decode() for name, value in changes.items()}
    return {**secret, "data": {**secret["data"], **data}}


def test_what_does_not_fit_opens_nothing() -> None:
    key = new_key(ORGANISATION)
    good = manifest(key, namespace="acme", user="ci")
    assert _keys(good).caller(key)
    assert _keys().caller(key) is None, "deleted"
    assert _keys({**good, "type": "Opaque"}).caller(key) is None
    assert _keys(_changed(good, hash="0" * 64)).caller(key) is None
    assert _keys(_changed(good, expiresAt="some day")).caller(key) is None
    assert _keys(_changed(good, user="a:b")).caller(key) is None
    assert _keys(manifest(key, namespace="other", user="ci")).caller(key) is None
    elsewhere = key.replace(ORGANISATION.lower(), OTHER.lower())
    moved = manifest(key, namespace="other", user="ci")
    moved["metadata"]["name"] = secret_name(elsewhere)
    assert _keys(moved).caller(elsewhere) is None
    assert _keys(good).caller(f"{key}x") is None
    assert _keys(good).caller("") is None


@pytest.mark.parametrize("user", ["", "a:b", "a\nb", "system:masters", "x" * 200, "-"])
def test_names_that_could_be_others_are_refused(user: str) -> None:
    with pytest.raises(ValueError, match="cannot be a user or a group"):
        manifest(new_key(ORGANISATION), namespace="acme", user=user)


async def test_a_key_is_a_bearer_value_only_where_clients_send_it_so() -> None:
    key = new_key(ORGANISATION)
    chain = AuthenticatorChain([], keys=_keys(manifest(key, namespace="acme", user="ci")))
    assert (await chain.caller({"X-API-Key": key})).username.endswith(":ci")
    bearer = {"Authorization": f"Bearer {key}"}
    assert (await chain.caller(bearer, key_as_bearer=True)).username.endswith(":ci")
    for headers in (bearer, {"X-API-Key": "nonsense"}, {"X-API-Key": ""}, {}):
        with pytest.raises(ApiError) as refused:
            await chain.caller(headers)
        assert refused.value.status == 401
    with pytest.raises(ApiError, match="send it as X-API-Key") as refused:
        await chain.caller(bearer)
    assert key not in refused.value.message


class _OneToken:
    async def authenticate(self, token: str) -> Caller | None:
        return Caller(username="ann") if token == "good" else None


@pytest.mark.parametrize("empty", ["", " ", "\t"])
async def test_an_empty_key_is_none_beside_a_token(empty: str) -> None:
    chain = AuthenticatorChain([_OneToken()], keys=_keys())
    headers = {"X-API-Key": empty, "Authorization": "Bearer good"}
    assert (await chain.caller(headers)).username == "ann"
    for others in ({"X-API-Key": empty}, {**headers, "Authorization": "Bearer bad"}):
        with pytest.raises(ApiError) as refused:
            await chain.caller(others)
        assert refused.value.status == 401
    # It is the same credential, and an empty key alone is no guess.
    assert credential_of(headers) == credential_of({"Authorization": "Bearer good"})
    assert credential_of({"X-API-Key": empty}) is None


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
async def test_a_repeated_header_of_who_calls_is_refused(name: str) -> None:
    """Of two, a proxy may check the one and the API take the other."""
    key = new_key(ORGANISATION)
    chain = AuthenticatorChain([_OneToken()], keys=_keys(manifest(key, namespace="acme", user="ci")))
    headers = CIMultiDict({"X-API-Key": key, "Authorization": "Bearer good"})
    assert (await chain.caller(CIMultiDictProxy(headers))).username.endswith(":ci"), "a key beside a token"
    headers.add(name, headers[name])
    with pytest.raises(ApiError) as refused:
        await chain.caller(CIMultiDictProxy(headers))
    assert (refused.value.status, refused.value.code) == (400, "malformed")
    assert name in refused.value.message
    if name == "Authorization":
        with pytest.raises(ApiError, match="more than once"):
            bearer_token(CIMultiDictProxy(headers))
