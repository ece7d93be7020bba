"""Connect sessions: kept as hashes, good for one user of one organisation, until they end or are deleted."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.operator import objects as o
from tieline_api.auth.access import Access
from tieline_api.auth.authentication import AuthenticatorChain, Caller
from tieline_api.auth.connect_sessions import (
    KEPT_AFTER_END,
    ConnectSession,
    ConnectSessions,
    FixedVariable,
    manifest,
    new_token,
    read,
)
from tieline_api.auth.end_users import EndUserScope
from tieline_api.auth.issuers import IssuersError, parse
from tieline_api.auth.jwts import caller_of
from tieline_api.auth.permissions import Permission
from tieline_api.cluster.indexes import by_allowed_origin
from tieline_api.console.parts import Console
from tieline_api.errors import ApiError
from tieline_core.identity.ids import new_id
from tieline_core.kubernetes import NotFound

ORGANISATION, OTHER, ENVIRONMENT = new_id(), new_id(), new_id()
NOW = datetime(2026, 11, 25, tzinfo=UTC)
SESSION = ConnectSession(
    id=new_id(),
    external_id="customer-17",
    environment=ENVIRONMENT,
    templates=(new_id(),),
    origins=("https://app.example",),
    created_by="login:app",
    created_at=NOW - timedelta(minutes=1),
    expires_at=NOW + timedelta(minutes=29),
)


class Kube:
    """Kubernetes, and a cache that has seen nothing yet."""

    def __init__(self, *secrets: dict[str, Any], cached: bool = True) -> None:
        self.found = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in secrets}
        for one in secrets:
            one["metadata"].setdefault("uid", one["metadata"]["name"])
        self.cached = cached
        self.deleted: list[str] = []

    async def get(self, _resource: Any, name: str, namespace: str | None = None) -> dict[str, Any]:
        if (found := self.found.get((namespace or "", name))) is None:
            raise NotFound("gone")
        return found

    async def delete(self, _resource: Any, name: str, namespace: str, **_: Any) -> None:
        self.deleted.append(name)

    @property
    def cache(self) -> Any:
        kube = self

        class Cache:
            def get(self, namespace: str, name: str) -> Any:
                return kube.found.get((namespace, name)) if kube.cached else None

            def list(self, _namespace: str | None = None) -> Any:
                return list(kube.found.values())

            def by_index(self, _index: str, key: str) -> Any:
                return [one for one in kube.found.values() if key in by_allowed_origin(one)]

            def forget(self, obj: Any) -> None:
                pass

        return Cache()


def sessions(*secrets: dict[str, Any], cached: bool = True) -> ConnectSessions:
    kube = Kube(*secrets, cached=cached)
    namespaces = {ORGANISATION: o.NAMESPACE, OTHER: "other"}
    return ConnectSessions(kube, kube.cache, namespaces.get, now=lambda: NOW)  # type: ignore[arg-type]


def made(token: str, **changes: Any) -> dict[str, Any]:
    return manifest(token, replace(SESSION, **changes), user=o.end_user())


@pytest.mark.parametrize("cached", [True, False], ids=["known", "made by another replica"])
async def test_a_token_is_its_users_in_its_organisation(cached: bool) -> None:
    token = new_token(ORGANISATION)
    caller = await sessions(made(token), cached=cached).authenticate(token)
    assert caller == Caller(
        username=f"tieline:end-user:{ORGANISATION.lower()}:customer-17",
        organisations=frozenset({ORGANISATION}),
        kind="endUser",
        end_user=EndUserScope(
            external_id="customer-17",
            environments=frozenset({ENVIRONMENT}),
            templates=frozenset(SESSION.templates),
            session=SESSION.id,
            origins=frozenset({"https://app.example"}),
        ),
    )


async def test_fixed_values_and_inputs_come_with_the_token() -> None:
    token = new_token(ORGANISATION)
    fixed = (FixedVariable("shop", "mine", hidden=True), FixedVariable("region", "eu", hidden=False))
    secret = made(token, variables=fixed, inputs=("tenant",))
    assert read(secret) == replace(SESSION, variables=fixed, inputs=("tenant",))
    caller = await sessions(secret).authenticate(token)
    assert caller is not None
    assert caller.end_user is not None
    assert caller.end_user.variables == (("shop", "mine"), ("region", "eu"))
    assert caller.end_user.inputs == frozenset({"tenant"})
    unlimited = await sessions(made(token)).authenticate(token)
    assert unlimited is not None
    assert unlimited.end_user is not None
    assert unlimited.end_user.inputs is None


def test_the_secret_holds_no_part_of_the_token_and_belongs_to_the_user() -> None:
    token = new_token(ORGANISATION)
    secret = made(token)
    text = json.dumps(secret) + "".join(base64.b64decode(value).decode() for value in secret["data"].values())
    assert token[-43:] not in text
    assert [one["kind"] for one in secret["metadata"]["ownerReferences"]] == ["EndUser"]
    assert read(secret) == SESSION


async def test_what_has_ended_was_changed_or_is_elsewhere_opens_nothing() -> None:
    token = new_token(ORGANISATION)
    good = made(token)
    assert await sessions(good).authenticate(token)
    assert await sessions().authenticate(token) is None, "revoked"
    assert await sessions(made(token, expires_at=NOW)).authenticate(token) is None
    assert await sessions({**good, "type": "Opaque"}).authenticate(token) is None
    for name, value in (("hash", b"0" * 64), ("session", b"{}"), ("session", b"?")):
        changed = {**good, "data": {**good["data"], name: base64.b64encode(value).decode()}}
        assert await sessions(changed).authenticate(token) is None
    moved = {**good, "metadata": {**good["metadata"], "namespace": "other"}}
    assert await sessions(moved).authenticate(token) is None
    other = token.replace(ORGANISATION.lower(), OTHER.lower())
    assert await sessions(good, moved).authenticate(other) is None


async def test_a_token_goes_to_nobody_else_and_an_unknown_one_is_401() -> None:
    class Cluster:
        async def authenticate(self, token: str) -> Caller | None:
            raise AssertionError("Kubernetes must not see it")

    token = new_token(ORGANISATION)
    chain = AuthenticatorChain([Cluster()], sessions=sessions(made(token)))
    for scheme in ("Bearer", "JWT"):
        assert (await chain.caller({"Authorization": f"{scheme} {token}"})).kind == "endUser"
    for headers in ({"Authorization": f"Bearer {new_token(ORGANISATION)}"}, {"X-API-Key": token}):
        with pytest.raises(ApiError) as caught:
            await chain.caller(headers)
        assert caught.value.status == 401


async def test_what_ended_long_ago_is_deleted_and_its_origin_known_until_then() -> None:
    token = new_token(ORGANISATION)
    recent = made(token, expires_at=NOW - KEPT_AFTER_END / 2)
    old = made(new_token(ORGANISATION), expires_at=NOW - KEPT_AFTER_END - timedelta(seconds=1))
    kube = Kube(recent, old)
    found = ConnectSessions(kube, kube.cache, {}.get, now=lambda: NOW)  # type: ignore[arg-type]
    assert found.allows("https://app.example")
    assert not found.allows("https://evil.example")
    assert await found.sweep() == 1
    assert kube.deleted == [old["metadata"]["name"]]
    assert found.live(o.NAMESPACE) == []


async def test_kubernetes_is_asked_nothing_about_end_users() -> None:
    class Never:
        async def create(self, *_: Any) -> Any:
            raise AssertionError("Kubernetes was asked")

    caller = Caller(username="system:admin", end_user=EndUserScope(external_id="x"))
    assert not await Access(Never()).allowed(caller, "acme", Permission("list", "projects"))  # type: ignore[arg-type]


async def test_an_end_user_cannot_sign_in_to_the_console() -> None:
    class Authentication:
        async def caller(self, _headers: Any) -> Caller:
            return Caller(username="x", kind="endUser", end_user=EndUserScope(external_id="x"))

    console: Any = SimpleNamespace(platform=SimpleNamespace(authentication=Authentication()))
    with pytest.raises(ApiError) as caught:
        await Console.caller(console, SimpleNamespace(headers=dict))  # type: ignore[arg-type]
    assert caught.value.status == 401


ISSUER = {"issuer": "https://app.example", "jwksFile": "/keys", "audiences": ["tieline"], "endUsers": True}


def of_issuer(**more: Any) -> Any:
    return parse(json.dumps([{**ISSUER, **more}]).encode())["https://app.example"]


def test_an_issuers_end_users_have_no_groups_and_reach_what_is_configured() -> None:
    issuer = of_issuer(organisations=[ORGANISATION.lower()], environments=[ENVIRONMENT])
    caller = caller_of({"sub": "customer-17", "groups": ["system:masters"], "name": "Ann"}, issuer)
    assert caller == Caller(
        username=f"tieline:end-user:{ORGANISATION.lower()}:customer-17",
        organisations=frozenset({ORGANISATION}),
        kind="endUser",
        display_name="Ann",
        end_user=EndUserScope(external_id="customer-17", environments=frozenset({ENVIRONMENT})),
    )


@pytest.mark.parametrize(
    ("settings", "claims", "organisations"),
    [
        ({"organisationsClaim": "orgs"}, {"orgs": [ORGANISATION]}, {ORGANISATION}),
        ({"organisationsClaim": "orgs"}, {}, set()),
        ({"organisationsClaim": "orgs", "organisations": [ORGANISATION]}, {"orgs": [OTHER]}, set()),
        (
            {"organisationsClaim": "orgs", "organisations": [ORGANISATION]},
            {"orgs": [OTHER, ORGANISATION]},
            {ORGANISATION},
        ),
    ],
)
def test_a_claim_narrows_what_is_configured(
    settings: dict[str, Any], claims: dict[str, Any], organisations: set[str]
) -> None:
    caller = caller_of({"sub": "x", **claims}, of_issuer(**settings))
    assert caller is not None
    assert caller.organisations == organisations


@pytest.mark.parametrize("subject", ["", "x" * 257, "a\nb", "a\u202eb", None, 7])
def test_a_subject_that_no_user_can_have_is_nobody(subject: Any) -> None:
    assert caller_of({"sub": subject}, of_issuer(organisations=[ORGANISATION])) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "needs organisations or organisationsClaim"),
        ({"organisations": ["acme"]}, "organisations"),
        ({"organisations": [ORGANISATION], "environments": []}, "environments"),
        ({"endUsers": False, "organisations": [ORGANISATION]}, "are for endUsers"),
    ],
)
def test_an_issuer_of_end_users_says_for_which_organisations(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(IssuersError, match=words):
        of_issuer(**settings)
