"""What has expired is deleted as far as the platform has made it, is told, and is never deleted by mistake."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.credentials.validation.secret_facts import TokenFacts
from tieline_core.identity.ids import format_time
from tieline_core.identity.names import tokens_name
from tieline_core.kubernetes import resources as r

CONNECTION = (r.CONNECTIONS, "login")
SCHEMES = [
    {"id": "basic", "type": "basic-auth"},
    {
        "id": "oauth",
        "type": "oauth2",
        "oauth2": {
            "tokenUrl": "https://login.shop.example/token",
            "grant": {"type": "clientCredentials", "clientCredentials": {}},
        },
    },
]


def item(
    identifier: str = "main", *, expires: float | None = None, secret: str = "login", **more: Any
) -> dict[str, Any]:
    found = {
        "id": identifier,
        "authSchemeConfigId": "basic",
        "type": "basic-auth",
        "secretRef": {"name": secret},
        **more,
    }
    return (
        found if expires is None else {**found, "expiresAt": format_time(o.NOW + timedelta(seconds=expires))}
    )


def oauth_item(**more: Any) -> dict[str, Any]:
    return item(**{"authSchemeConfigId": "oauth", "type": "oauth2-client", **more})


class There(ReconcileLoop):
    """A connection with credentials and their Secrets."""

    def __init__(self, *items: dict[str, Any]) -> None:
        cluster = FakeCluster(o.system(authSchemeConfigs=SCHEMES), o.connection(credentials=list(items)))
        cluster.put(r.NAMESPACES, o.namespace())
        super().__init__(cluster)

    def store(self, name: str = "login", *, owned: bool = True, age: float = 3600, **more: Any) -> None:
        secret = o.secret(name, "username", "password", "clientId", "clientSecret")
        secret["metadata"]["creationTimestamp"] = format_time(o.NOW - timedelta(seconds=age))
        if owned:
            uid = o.connection()["metadata"]["uid"]
            secret["metadata"]["ownerReferences"] = [{"kind": "Connection", "name": "login", "uid": uid}]
        self.cluster.put(r.SECRETS, {**secret, **more})

    def store_tokens(self, identifier: str = "main", **more: Any) -> None:
        self.store(tokens_name("login", identifier), tokens=TokenFacts(obtained=True), **more)

    @staticmethod
    def connection(*items: dict[str, Any]) -> dict[str, Any]:
        return o.connection(credentials=list(items))

    def secrets(self) -> set[str]:
        return {name for _, name in self.cluster.objects[r.SECRETS]}

    def status(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster[r.CONNECTIONS].get(o.NAMESPACE, "login")["status"][
            "credentials"
        ]
        return found

    def events(self) -> list[tuple[str, str]]:
        return [(event["type"], event["reason"]) for event in self.cluster.posted]


async def test_what_the_platform_made_is_deleted_with_an_event() -> None:
    there = There(oauth_item(expires=0))
    there.store()
    there.store_tokens()
    await there.until_quiet()
    assert there.secrets() == set()
    assert there.status()[0]["expired"] is True
    assert there.status()[0]["errors"] == [
        "The credential has expired at 2026-11-21T12:00:00Z and is deleted; replace it, "
        "or take it out of the spec"
    ]
    assert there.ready(*CONNECTION)[:2] == ("False", "CredentialExpired")
    assert [reason for kind, reason in there.events() if kind == "Warning"] == ["CredentialExpired"]


async def test_a_secret_that_somebody_else_keeps_stays() -> None:
    there = There(item(expires=0))
    there.store(owned=False)
    await there.until_quiet()
    assert there.secrets() == {"login"}
    assert there.ready(*CONNECTION)[1] == "CredentialExpired"


async def test_a_secret_that_another_credential_uses_stays() -> None:
    there = There(item(expires=0), item("other"))
    there.store()
    await there.until_quiet()
    assert there.secrets() == {"login"}


async def test_nothing_goes_before_its_time_and_all_at_its_time() -> None:
    there = There(item(expires=90))
    there.store()
    await there.once(*CONNECTION)
    assert there.requeue_after == 90
    assert there.secrets() == {"login"}
    there.now = o.NOW + timedelta(seconds=90)
    await there.once(*CONNECTION)
    assert there.secrets() == set()


async def test_an_expiry_is_told_once_also_where_nothing_was_ready() -> None:
    there = There(item("broken", secret="nowhere"), item(expires=60))
    there.store()
    await there.until_quiet()
    assert there.ready(*CONNECTION)[1] == "SecretNotFound"
    there.now = o.NOW + timedelta(seconds=60)
    await there.until_quiet()
    await there.until_quiet()
    assert there.events().count(("Warning", "CredentialExpired")) == 1


async def test_tokens_of_a_removed_credential_go_and_those_of_one_that_is_news_stay() -> None:
    there = There(oauth_item(), oauth_item(identifier="other"))
    there.store()
    for identifier in ("main", "removed", "not-seen-yet"):
        there.store_tokens(identifier)
    there.cluster.ahead["login"] = there.connection(oauth_item(), oauth_item(identifier="not-seen-yet"))
    await there.once(*CONNECTION)
    assert tokens_name("login", "removed") not in there.secrets()
    assert tokens_name("login", "main") in there.secrets()
    assert tokens_name("login", "not-seen-yet") in there.secrets(), "Kubernetes has its credential already"
    there.cluster.ahead["login"] = there.connection(oauth_item())
    await there.once(*CONNECTION)
    assert tokens_name("login", "not-seen-yet") not in there.secrets()


async def test_tokens_that_were_written_since_they_were_seen_are_not_deleted() -> None:
    there = There(oauth_item())
    there.store()
    there.store_tokens("removed")
    there.cluster.changing.add(tokens_name("login", "removed"))
    await there.once(*CONNECTION)
    assert tokens_name("login", "removed") in there.secrets()


async def test_kubernetes_is_asked_only_where_something_seems_left_over() -> None:
    there = There(oauth_item(), item("basic"))
    there.store()
    there.store_tokens()
    await there.until_quiet()
    assert there.cluster.reads == 0


async def test_a_secret_of_the_name_that_holds_no_tokens_of_ours_stays() -> None:
    there = There()
    there.store(tokens_name("login", "main"), tokens=None)
    there.store(tokens_name("login", "foreign"), owned=False, tokens=TokenFacts(obtained=True))
    await there.until_quiet()
    assert there.secrets() == {tokens_name("login", "main"), tokens_name("login", "foreign")}


async def test_a_credential_that_is_given_more_time_is_valid_again() -> None:
    there = There(item(expires=0))
    there.store(owned=False)
    await there.until_quiet()
    await there.changed(r.CONNECTIONS, o.connection(credentials=[item(expires=600)]))
    assert there.ready(*CONNECTION)[0] == "True"
    assert there.status() == [{"id": "main", "errors": []}]
