"""What pods get of a dialect: base URL and variables that were kept, and a client secret where it is needed."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.oauth.memory_lookups import credential, make, oauth2, system
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.pod_api.configuration import connection_body
from tieline_core.identity.ids import parse_time
from tieline_core.oauth import token_secret_codec
from tieline_core.oauth.token_secrets import blank_secret
from tieline_protocol.oauth.kept import Kept
from tieline_protocol.oauth.token_client import Tokens

KEPT = Kept(base_url="https://mine.shop.example", account_id="7", variables={"tenant": "t-1"})
SECRET = {
    "type": "tieline.dev/credential",
    "data": {"clientSecret": "aHVzaA=="},
    "metadata": {"name": "client"},
}


def body(
    kept: Kept = KEPT,
    own: dict[str, Any] | None = None,
    looked_up: list[str] | None = None,
    **scheme: Any,
) -> dict[str, Any]:
    """What a pod gets of a connection. ``looked_up`` gets the names of the objects that are looked up for it."""
    names = [] if looked_up is None else looked_up

    def look(name: str, found: Any) -> Any:
        names.append(name)
        return found

    client = {"clientId": "app", "secretRef": {"name": "client"}}
    there = system(oauth2(client=client, **scheme))
    connection = make(
        "Connection",
        "login",
        name="Login",
        systemRef={"name": "shop"},
        credentials=[credential(kind="oauth2-code")],
        **(own or {}),
    )
    tokens = Tokens(
        access_token="at", refresh_token="rt", issued_at=parse_time("2026-01-01T00:00:00Z"), kept=kept
    )
    held = token_secret_codec.with_tokens(blank_secret(connection, "main"), tokens)
    secrets = {held["metadata"]["name"]: held, "client": SECRET}
    cluster = SimpleNamespace(
        systems=None,
        secrets=SimpleNamespace(get=lambda _namespace, name: look(name, secrets.get(name))),
        referred=lambda *_: look("shop", there),
        referring=lambda *_: [],
        templates=None,
        activations=None,
    )
    return connection_body(cast(ClusterCache, cluster), connection)


@pytest.mark.parametrize(
    ("kept", "own", "url"),
    [
        (KEPT, {}, "https://mine.shop.example"),
        (KEPT, {"baseUrl": "https://own.shop.example"}, "https://own.shop.example"),
        (
            Kept(base_url="https://mine.shop.example", overrides=frozenset({"baseUrl"})),
            {"baseUrl": "https://own.shop.example"},
            "https://mine.shop.example",
        ),
        (Kept(), {}, "https://shop.example"),
    ],
)
def test_a_kept_base_url_counts_unless_the_connection_has_its_own(
    kept: Kept, own: dict[str, Any], url: str
) -> None:
    assert body(kept, own)["baseUrl"] == url


def test_pods_get_variables_and_a_client_secret_only_where_requests_need_them() -> None:
    (plain,) = body()["credentials"]
    assert plain["data"] == {"accessToken": "at", "tokenType": "Bearer"}
    (needed,) = body(token={"headers": {"X-Tenant": "{tenant}"}, "clientSecret": {"name": "X-Secret"}})[
        "credentials"
    ]
    assert needed["data"] == {
        "accessToken": "at",
        "tokenType": "Bearer",
        "variables": {"tenant": "t-1"},
        "clientSecret": "hush",
    }


def test_what_the_credentials_share_is_looked_up_once() -> None:
    names: list[str] = []
    body(looked_up=names, token={"headers": {"X-Tenant": "{tenant}"}})
    assert sorted(names) == sorted(set(names))
    assert "shop" in names
