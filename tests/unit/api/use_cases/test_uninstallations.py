"""Providers that report by a DELETE on the callback URL that an application was removed."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.oauth.memory_kube import MemoryKube
from tests.unit.oauth.memory_lookups import MemoryLookups, credential, make, oauth2, system
from tieline_api.cluster.indexes import by_uninstalling_client
from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.use_cases.uninstallations import uninstall
from tieline_core.identity.ids import parse_time
from tieline_core.kubernetes import Conflict
from tieline_core.oauth import token_secret_codec
from tieline_core.oauth.token_secrets import blank_secret
from tieline_core.objects import ObjectView
from tieline_protocol.oauth.kept import Kept
from tieline_protocol.oauth.token_client import Tokens

SECRET = "s3cret-of-the-client"
NOW = parse_time("2026-01-01T12:00:00Z")


@dataclass
class Cluster:
    """A system with connections of two accounts."""

    system: dict[str, Any]
    connections: list[dict[str, Any]] = field(default_factory=list)
    kube: MemoryKube = field(default_factory=MemoryKube)
    seen: list[str | None] = field(default_factory=list)
    """The refusals in what was put into the cache."""

    @property
    def systems(self) -> "Cluster":
        return self

    @property
    def secrets(self) -> "Cluster":
        return self

    def require_sync(self) -> None:
        """It is there."""

    def by_index(self, index: str, key: str) -> list[ObjectView]:
        assert index == "uninstall"
        return [self.system] if key in by_uninstalling_client(self.system) else []

    def referring(self, *_: object) -> list[dict[str, Any]]:
        return self.connections

    def get(self, namespace: str, name: str) -> ObjectView | None:
        return self.kube.objects.get(("Secret", namespace, name))

    def observe(self, obj: Mapping[str, Any]) -> None:
        """What was written is in the cache at once."""
        self.seen.append(token_secret_codec.read(obj).refusal)

    def connect(self, name: str, account: str) -> None:
        connection = make(
            "Connection",
            name,
            name=name,
            systemRef={"name": "shop"},
            credentials=[credential(kind="oauth2-code")],
        )
        self.connections.append(connection)
        tokens = Tokens(access_token="at", refresh_token="rt", issued_at=NOW, kept=Kept(account_id=account))
        blank = blank_secret(connection, "main")
        self.kube.put(token_secret_codec.with_tokens(blank, tokens, source="s", asked_as="a"))

    def refusals(self) -> list[str | None]:
        found = (self.kube.objects["Secret", "acme", name] for name in self._names())
        return [token_secret_codec.read(secret).refusal for secret in found]

    def _names(self) -> list[str]:
        return [str(blank_secret(one, "main")["metadata"]["name"]) for one in self.connections]


@pytest.fixture
def cluster() -> Cluster:
    client = {"clientId": "app", "secretRef": {"name": "client"}}
    found = Cluster(system(oauth2(client=client, uninstall={"accountId": "company_id"})))
    found.connect("one", "42")
    found.connect("two", "43")
    return found


def platform_of(cluster: Cluster) -> Dependencies:
    """What the use case needs of the platform; the client's secret is stored."""
    lookups = MemoryLookups(cluster.system)
    lookups.put_secret("client", clientSecret=SECRET)
    return cast(Dependencies, SimpleNamespace(cluster=cluster, lookups=lookups, kube=cluster.kube))


@pytest.mark.parametrize(
    ("client", "secret", "body", "is_known", "refusals"),
    [
        ("app", SECRET, {"client_id": "app", "company_id": 42}, True, ["uninstalled", None]),
        ("app", SECRET, {"company_id": "43"}, True, [None, "uninstalled"]),
        ("app", SECRET, {"client_id": "another", "company_id": 42}, True, [None, None]),
        ("app", SECRET, ["odd"], True, [None, None]),
        ("app", "guessed", {"client_id": "app", "company_id": 42}, False, [None, None]),
        ("app", "", {"client_id": "app", "company_id": 42}, False, [None, None]),
        ("other", SECRET, {"client_id": "app", "company_id": 42}, False, [None, None]),
    ],
)
async def test_only_the_client_itself_reports_that_an_account_removed_it(
    cluster: Cluster, client: str, secret: str, body: Any, is_known: bool, refusals: list[str | None]
) -> None:
    platform = platform_of(cluster)
    known = await uninstall(platform, client_id=client, client_secret=secret, body=body)
    assert bool(known) is is_known
    assert cluster.refusals() == refusals
    assert cluster.seen[-1:] == ["uninstalled"] * ("uninstalled" in refusals)


async def report(cluster: Cluster) -> object:
    """The provider reports that account 42 has removed the application."""
    return await uninstall(
        platform_of(cluster), client_id="app", client_secret=SECRET, body={"company_id": 42}
    )


async def test_tokens_of_another_account_meanwhile_stay_good(cluster: Cluster) -> None:
    cached = copy.deepcopy(cluster.kube.objects)
    cluster.connections.pop()
    cluster.connect("one", "44")
    cluster.connections.pop()
    cluster.get = lambda namespace, name: cached.get(("Secret", namespace, name))  # type: ignore[method-assign]
    assert await report(cluster)
    assert cluster.refusals() == [None]


async def test_a_removal_that_cannot_be_recorded_is_not_answered_as_recorded(cluster: Cluster) -> None:
    async def conflict(*_: object) -> dict[str, Any]:
        raise Conflict("changed", status=409)

    cluster.kube.replace = conflict  # type: ignore[method-assign]
    with pytest.raises(ApiError) as caught:
        await report(cluster)
    assert caught.value.status == 503
