"""Tokens are refreshed in time, quietly, and never hammered out of a provider that said no."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.queues.test_delaying_queue import HandClock
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.credentials.grant_request import SecretTakenError, UnresolvedError
from tieline_core.credentials.linker import Problem
from tieline_core.credentials.token_manager import FreshTokens
from tieline_core.credentials.validation.secret_facts import TokenFacts, ValueFacts
from tieline_core.identity.names import tokens_name
from tieline_core.kubernetes import Unavailable
from tieline_core.kubernetes import resources as r
from tieline_operator.metrics import Metrics
from tieline_operator.tokens.refresher import TokenRefresher
from tieline_protocol.oauth.token_client import MisconfiguredError, RefusedError, Tokens, UnreachableError

SCHEME = {
    "id": "oauth",
    "type": "oauth2",
    "oauth2": {
        "tokenUrl": "https://login.shop.example/token",
        "grant": {"type": "clientCredentials", "clientCredentials": {}},
    },
}
CLIENT = {
    "id": "main",
    "type": "oauth2-client",
    "authSchemeConfigId": "oauth",
    "secretRef": {"name": "login"},
}


class KeeperInMemory:
    """Issues tokens for an hour, or raises what a test says."""

    def __init__(self, there: Keeping) -> None:
        self._there = there
        self.asked: list[float] = []
        self.raises: Exception | None = None

    async def fresh(self, connection: Any, item_id: str, *, rejected: str = "") -> FreshTokens | None:
        self.asked.append(self._there.clock.now)
        if self.raises:
            raise self.raises
        now = self._there.now()
        tokens = Tokens(access_token="a", issued_at=now, expires_at=now + timedelta(hours=1))
        return FreshTokens(tokens=tokens, due_at=now + timedelta(minutes=45))


class Keeping:
    """A cluster with connections that want tokens, and the refreshes of it."""

    def __init__(self, *names: str) -> None:
        self.clock = HandClock()
        self.cluster = FakeCluster(o.system(authSchemeConfigs=[SCHEME]))
        self.cluster.put(r.NAMESPACES, o.namespace())
        for name in names or ("login",):
            self.cluster.put(r.CONNECTIONS, o.connection(name, credentials=[CLIENT]))
        self.store_client()
        self.token_manager = KeeperInMemory(self)
        self.metrics = Metrics()
        self.changed: list[str] = []
        self.leads = True
        self.refreshes = TokenRefresher(
            self.cluster,
            self.token_manager,
            self.metrics,
            now=self.now,
            clock=self.clock,
            chance=lambda: 0.5,
            changed=lambda _, name: self.changed.append(name),
            leads=lambda: self.leads,
        )
        self.refreshes.queue.start()

    def now(self) -> datetime:
        return o.NOW + timedelta(seconds=self.clock.now)

    def store_client(self, version: str = "1") -> None:
        secret = o.secret("login", "clientId", "clientSecret")
        secret["metadata"]["resourceVersion"] = version
        self.cluster.put(r.SECRETS, secret)

    def store_tokens(self, name: str = "login", **facts: Any) -> None:
        metadata = {
            "name": tokens_name(name, "main"),
            "namespace": o.NAMESPACE,
            "uid": name,
            "resourceVersion": "2",
            "ownerReferences": [
                {"kind": "Connection", "name": name, "uid": o.connection(name)["metadata"]["uid"]}
            ],
        }
        tokens = TokenFacts(**{"obtained": True, **facts})
        kept = {
            "metadata": metadata,
            "type": "tieline.dev/credential",
            "values": ValueFacts(),
            "tokens": tokens,
        }
        self.cluster.put(r.SECRETS, kept)

    def look(self, name: str = "login") -> None:
        self.refreshes.reschedule(o.NAMESPACE, name)

    def in_minutes(self, minutes: float) -> datetime:
        return self.now() + timedelta(minutes=minutes)

    def count(self, outcome: str) -> float:
        found = self.metrics.registry.get_sample_value(
            "tieline_operator_token_refreshes_total", {"outcome": outcome}
        )
        return found or 0.0


async def test_a_replica_that_may_not_lead_any_more_begins_no_refresh() -> None:
    there = Keeping()
    there.leads = False
    there.look()
    await there.clock.pass_by(9)
    assert there.token_manager.asked == []
    there.leads = True
    await there.clock.pass_by(2)
    assert len(there.token_manager.asked) == 1


async def test_tokens_are_obtained_at_once_and_refreshed_when_they_are_due() -> None:
    there = Keeping()
    there.look()
    await there.clock.pass_by(1)
    assert there.token_manager.asked == [0]
    await there.clock.pass_by(44 * 60)
    assert len(there.token_manager.asked) == 1
    await there.clock.pass_by(11 * 60)
    assert len(there.token_manager.asked) == 2
    assert there.count("renewed") == 2


async def test_nobody_is_asked_for_tokens_that_are_not_due() -> None:
    there = Keeping()
    there.look()
    await there.clock.pass_by(1)
    due, ends = there.in_minutes(45), there.in_minutes(60)
    there.store_tokens(due_at=due, expires_at=ends)
    for _ in range(5):
        there.look()
        await there.clock.pass_by(60)
    assert len(there.token_manager.asked) == 1


async def test_a_new_secret_is_noticed_at_once() -> None:
    there = Keeping()
    there.store_tokens(due_at=there.in_minutes(45), expires_at=there.in_minutes(60))
    there.look()
    await there.clock.pass_by(601)
    before = len(there.token_manager.asked)
    there.store_client(version="7")
    there.look()
    await there.clock.pass_by(1)
    assert len(there.token_manager.asked) == before + 1


async def test_after_a_start_everything_is_looked_at_once_and_spread() -> None:
    names = [f"login-{number}" for number in range(20)]
    there = Keeping(*names)
    for name in names:
        there.store_tokens(name, due_at=there.in_minutes(45), expires_at=there.in_minutes(60))
        there.look(name)
    await there.clock.pass_by(299)
    assert there.token_manager.asked == []
    await there.clock.pass_by(302)
    assert len(there.token_manager.asked) == 20


async def test_those_that_are_due_at_one_moment_are_spread() -> None:
    names = [f"login-{number}" for number in range(50)]
    there = Keeping(*names)
    for name in names:
        there.look(name)
    await there.clock.pass_by(1)
    await there.clock.pass_by(44 * 60)
    there.token_manager.asked.clear()
    await there.clock.pass_by(10 * 60)
    assert len(there.token_manager.asked) == 50
    assert max(there.token_manager.asked) - min(there.token_manager.asked) > 200
    assert max(there.token_manager.asked) < 60 * 60


async def test_a_refusal_is_not_asked_about_again_until_something_changes() -> None:
    there = Keeping()
    there.token_manager.raises = RefusedError("no", code="invalid_grant")
    there.look()
    await there.clock.pass_by(1)
    there.store_tokens(obtained=False, refused="invalid_grant")
    there.look()
    await there.clock.pass_by(48 * 3600)
    assert len(there.token_manager.asked) == 1
    assert there.count("refused") == 1
    there.token_manager.raises = None
    there.store_client(version="9")
    there.look()
    await there.clock.pass_by(1)
    assert len(there.token_manager.asked) == 2


async def test_a_provider_that_is_away_is_asked_ever_more_seldom_and_never_given_up() -> None:
    there = Keeping()
    there.token_manager.raises = UnreachableError("away")
    there.look()
    await there.clock.pass_by(3600)
    first = len(there.token_manager.asked)
    assert 6 <= first <= 12
    await there.clock.pass_by(3600)
    assert len(there.token_manager.asked) - first in (4, 5)
    there.token_manager.raises = None
    await there.clock.pass_by(900)
    assert there.count("renewed") == 1


@pytest.mark.parametrize(
    ("ahead", "after"),
    [(timedelta(minutes=50), 50 * 60), (timedelta(days=1), 0)],
    ids=["that was asked for", "of a clock a day ahead"],
)
async def test_a_pause_is_waited_for_unless_it_is_longer_than_any(ahead: timedelta, after: float) -> None:
    there = Keeping()
    there.look()
    await there.clock.pass_by(1)
    there.token_manager.asked.clear()
    there.store_tokens(due_at=there.now(), expires_at=there.now(), not_before=there.now() + ahead)
    there.look()
    await there.clock.pass_by(3600)
    assert after < there.token_manager.asked[0] < after + 10


async def test_a_provider_that_asks_for_patience_gets_it_for_all_its_connections() -> None:
    there = Keeping("one", "two")
    there.token_manager.raises = UnreachableError("slow down", retry_after=40)
    there.look("one")
    await there.clock.pass_by(1)
    there.token_manager.raises = None
    there.look("two")
    await there.clock.pass_by(30)
    assert len(there.token_manager.asked) == 1
    await there.clock.pass_by(30)
    assert len(there.token_manager.asked) == 3


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (UnreachableError("The token URL did not answer in time"), "ProviderUnavailable"),
        (MisconfiguredError("The token URL answered 404 without a token"), "TokenUrlWrong"),
        (UnresolvedError((Problem("CertificateWrong", "The key does not fit"),)), "CertificateWrong"),
        (SecretTakenError("login-tokens"), "SecretNameTaken"),
    ],
)
async def test_trouble_is_told_of_the_provider_and_not_of_the_credential(
    raised: Exception, reason: str
) -> None:
    there = Keeping()
    there.token_manager.raises = raised
    there.look()
    await there.clock.pass_by(1)
    assert there.changed == ["login"]
    assert there.refreshes.token_problems(o.NAMESPACE, "login")["main"].reason == reason
    reconciling = ReconcileLoop(there.cluster, token_problems=there.refreshes.token_problems)
    await reconciling.until_quiet()
    assert reconciling.ready(r.CONNECTIONS, "login")[1] == reason
    assert str(raised) in reconciling.ready(r.CONNECTIONS, "login")[2]
    status = there.cluster[r.CONNECTIONS].get(o.NAMESPACE, "login")["status"]
    assert status["credentials"] == [{"id": "main", "errors": []}]
    there.token_manager.raises = None
    there.store_client(version="3")
    there.look()
    await there.clock.pass_by(1)
    there.store_tokens(due_at=there.in_minutes(45), expires_at=there.in_minutes(60))
    await reconciling.until_quiet()
    assert reconciling.ready(r.CONNECTIONS, "login")[0] == "True"


async def test_an_api_server_that_is_away_is_no_trouble_of_the_credential() -> None:
    there = Keeping()
    there.token_manager.raises = Unavailable("away")
    there.look()
    await there.clock.pass_by(1)
    assert there.refreshes.token_problems(o.NAMESPACE, "login") == {}
    there.token_manager.raises = None
    await there.clock.pass_by(20)
    assert there.count("renewed") == 1


async def test_what_is_gone_is_forgotten() -> None:
    there = Keeping()
    there.look()
    await there.clock.pass_by(1)
    there.cluster.remove(r.CONNECTIONS, "login")
    there.look()
    await there.clock.pass_by(7200)
    assert len(there.token_manager.asked) == 1
    assert len(there.refreshes.queue) == 0


async def test_an_expired_credential_is_refreshed_no_more() -> None:
    there = Keeping()
    there.look()
    await there.clock.pass_by(1)
    expired = {**CLIENT, "expiresAt": there.now().isoformat()}
    there.cluster.put(r.CONNECTIONS, o.connection(credentials=[expired]))
    there.look()
    await there.clock.pass_by(7200)
    assert len(there.token_manager.asked) == 1


async def test_given_tokens_that_nothing_renews_are_left_alone() -> None:
    there = Keeping()
    item = {**CLIENT, "type": "oauth2-token"}
    there.cluster.put(r.CONNECTIONS, o.connection(credentials=[item]))
    there.cluster.put(r.SECRETS, o.secret("login", "accessToken"))
    there.look()
    await there.clock.pass_by(7200)
    assert there.token_manager.asked == []


async def test_a_refusal_is_an_error_of_the_credential_with_an_event() -> None:
    there = Keeping()
    reconciling = ReconcileLoop(there.cluster)
    await reconciling.until_quiet()
    assert reconciling.ready(r.CONNECTIONS, "login")[:2] == ("Unknown", "TokensPending")
    there.store_tokens(obtained=False, refused="invalid_client")
    await reconciling.until_quiet()
    assert reconciling.ready(r.CONNECTIONS, "login")[:2] == ("False", "CredentialRefused")
    status = there.cluster[r.CONNECTIONS].get(o.NAMESPACE, "login")["status"]
    assert "invalid_client" in status["credentials"][0]["errors"][0]
    assert [event["reason"] for event in there.cluster.posted if event["type"] == "Warning"] == [
        "CredentialRefused"
    ]


async def test_a_name_that_is_taken_is_told_of_given_tokens_too_and_looked_at_again() -> None:
    there = Keeping()
    there.cluster.put(r.CONNECTIONS, o.connection(credentials=[{**CLIENT, "type": "oauth2-token"}]))
    there.cluster.put(r.SECRETS, o.secret("login", "accessToken", "refreshToken", "clientId", "clientSecret"))
    there.token_manager.raises = SecretTakenError("login-tokens")
    there.look()
    await there.clock.pass_by(1)
    reconciling = ReconcileLoop(there.cluster, token_problems=there.refreshes.token_problems)
    await reconciling.until_quiet()
    status, reason, message = reconciling.ready(r.CONNECTIONS, "login")
    assert (status, reason) == ("False", "SecretNameTaken")
    assert "delete it" in message
    assert "SecretNameTaken" in {event["reason"] for event in there.cluster.posted}
    there.token_manager.raises = None
    await there.clock.pass_by(90)
    assert there.count("renewed") == 1
    assert there.refreshes.token_problems(o.NAMESPACE, "login") == {}
