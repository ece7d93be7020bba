"""What ends soon, and which Secrets of others have the values of credentials."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.harness.identity.certificate_authority import Authority
from tests.unit.oauth.memory_lookups import make
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.views import connections
from tieline_api.views.credential_secrets import ends_before, expiries_of, secret_of
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.objects import Object

END = datetime(2027, 1, 1, tzinfo=UTC)


class Secrets:
    """The cache of Secrets."""

    def __init__(self) -> None:
        self.known: dict[str, Object] = {}

    def get(self, _namespace: str, name: str) -> Object | None:
        return self.known.get(name)

    def put(self, name: str, *, values: dict[str, str] | None = None, **metadata: Any) -> None:
        secret = make("Secret", name)
        secret["metadata"] |= {
            # Facts are cached by it, and the id of an object that is gone is given to another one.
            "uid": new_id(),
            "resourceVersion": str(len(self.known)),
            **metadata,
        }
        data = {key: b64encode(value.encode()).decode() for key, value in (values or {}).items()}
        self.known[name] = {**secret, "type": CREDENTIAL_TYPE, "data": data}


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


def cluster(secrets: Secrets) -> ClusterCache:
    return cast(ClusterCache, SimpleNamespace(secrets=secrets))


def connection(**item: Any) -> Object:
    found = make(
        "Connection",
        "shop",
        name="Shop",
        credentials=[{"id": "main", "secretRef": {"name": "shop-key"}, **item}],
    )
    found["metadata"]["labels"] = {"tieline.dev/id": "01JD3Y000000000000000000C1"}
    return found


def test_what_ends_is_found_where_it_is_written(secrets: Secrets) -> None:
    secrets.put("shop-key", values={"accessToken": "t", "expiresAt": "2027-01-01T00:00:00Z"})
    only = connection(type="oauth2-token", expiresAt="2028-01-01T00:00:00Z")
    found = expiries_of(cluster(secrets), only)
    assert [(one.what, one.at) for one in found] == [
        ("token", "2027-01-01T00:00:00Z"),
        ("credential", "2028-01-01T00:00:00Z"),
    ]
    assert ends_before(cluster(secrets), only, END + timedelta(seconds=1))
    assert not ends_before(cluster(secrets), only, END)


def test_a_certificate_ends_when_it_says(secrets: Secrets) -> None:
    certificate, key = Authority().issue("shop")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    secrets.put("shop-key", values={"certificate": certificate, "key": pem})
    (only,) = expiries_of(cluster(secrets), connection(type="certificate"))
    assert only.what == "certificate"
    assert ends_before(
        cluster(secrets), connection(type="certificate"), datetime.now(UTC) + timedelta(days=2)
    )


def test_what_is_renewed_by_itself_does_not_end(secrets: Secrets) -> None:
    values = {"accessToken": "t", "refreshToken": "r", "expiresAt": "2027-01-01T00:00:00Z"}
    secrets.put("shop-key", values=values)
    assert expiries_of(cluster(secrets), connection(type="oauth2-token")) == []
    assert expiries_of(cluster(secrets), connection(type="string")) == []


@pytest.mark.parametrize(
    ("metadata", "manager"),
    [
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, 'Flux (Kustomization "apps")'),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "shop:x"}}, 'Argo CD (Application "shop")'),
        ({}, "kubectl or another client of Kubernetes"),
    ],
)
def test_a_secret_of_others_names_who_manages_it(
    secrets: Secrets, metadata: dict[str, Any], manager: str
) -> None:
    secrets.put("shop-key", **metadata)
    only = connection(type="string")
    found = secret_of(cluster(secrets), only, only["spec"]["credentials"][0])
    assert found is not None
    assert (found.name, found.managed_by) == ("shop-key", manager)


def test_a_secret_that_rest_has_made_is_not_shown(secrets: Secrets) -> None:
    secrets.put("shop-key", annotations={"tieline.dev/made-for": "Connection/shop"})
    only = connection(type="string")
    assert secret_of(cluster(secrets), only, only["spec"]["credentials"][0]) is None
    assert secret_of(cluster(secrets), only, {"id": "none", "type": "none"}) is None


@pytest.mark.parametrize("is_end_user", [False, True])
def test_end_users_do_not_see_which_secret_has_their_credential(
    secrets: Secrets, monkeypatch: pytest.MonkeyPatch, is_end_user: bool
) -> None:
    monkeypatch.setattr(connections, "ConnectionTokens", lambda *_: SimpleNamespace(system=None))
    monkeypatch.setattr(connections, "connection_with_findings", lambda _cluster, obj, _system: obj)
    monkeypatch.setattr(connections.convert, "connection_to_rest", lambda _obj, **given: given)
    secrets.put("shop-key")
    only = connection(type="string")
    cache = SimpleNamespace(secrets=secrets, templates=None, referred=lambda *_: None)
    call: Any = SimpleNamespace(
        platform=SimpleNamespace(cluster=cache),
        organisation=SimpleNamespace(id="acme"),
        reach=object() if is_end_user else None,
    )
    given: Any = connections.connection_reply(call, only)
    assert (given["secret"](only["spec"]["credentials"][0]) is None) is is_end_user
