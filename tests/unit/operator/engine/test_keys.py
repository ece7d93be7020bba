"""The engine's Secrets in the release's namespace: made once, followed when they change, and never overwritten."""

from __future__ import annotations

import base64
import logging
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NOW
from tieline_core.engine.trust import EngineTrust, new_encryption_key
from tieline_core.kubernetes import Forbidden
from tieline_core.kubernetes.resources import SECRETS
from tieline_engine.credentials import Credentials
from tieline_operator.engine.key_manager import KeyManager
from tieline_operator.engine.keys import API_SECRET, CONFIG_SECRET, TRUST_SECRET
from tieline_protocol.nkeys import KeyPair

PLATFORM = "platform"


class Keeping:
    """A key manager on a cluster in memory."""

    def __init__(self, cluster: FakeCluster, *, replicas: int = 1) -> None:
        self.cluster = cluster
        self.changes = 0
        self.now = NOW + timedelta(minutes=1)
        self.manager = KeyManager(
            cluster, cluster, namespace=PLATFORM, replicas=replicas, changed=self._changed, now=self._now
        )

    def _changed(self) -> None:
        self.changes += 1

    def _now(self) -> datetime:
        return self.now

    def values(self, name: str) -> dict[str, str]:
        found = self.cluster[SECRETS].get(PLATFORM, name)
        return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}

    def put_trust(self, values: dict[str, str]) -> None:
        self.cluster.put(SECRETS, trust_secret(values))


def trust_secret(values: dict[str, str]) -> dict[str, Any]:
    metadata = {
        "name": TRUST_SECRET,
        "namespace": PLATFORM,
        "uid": "uid-of-the-administrators-secret",
        "resourceVersion": "1",
        "creationTimestamp": "2026-11-21T11:00:00Z",
    }
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def whole_trust(**changes: Any) -> dict[str, str]:
    return EngineTrust(**changes).to_values() | {"encryption-key": new_encryption_key()}


async def test_a_first_start_makes_the_keys_and_what_the_engine_and_the_api_need() -> None:
    there = Keeping(FakeCluster())
    assert await there.manager.refresh()
    assert there.manager.signer is not None
    trust = there.values(TRUST_SECRET)
    assert {"operator-seed", "account-seed", "signer-seed", "system-seed", "encryption-key"} <= trust.keys()
    config = there.values(CONFIG_SECRET)["nats.conf"]
    assert "key: $TIELINE_ENGINE_KEY" in config
    assert 'store_dir: "/data/single"' in config
    assert "server_name: $TIELINE_SERVER_NAME" in config
    assert "cluster {" not in config
    assert there.values(CONFIG_SECRET)["encryption-key"] == trust["encryption-key"]
    assert not any(value in config for name, value in trust.items() if name != "release-id")
    assert Credentials.parse(there.values(API_SECRET)["engine.creds"])


async def test_three_servers_know_each_other() -> None:
    there = Keeping(FakeCluster(), replicas=3)
    await there.manager.refresh()
    for number in range(3):
        route = f"nats://tieline-engine-{number}.tieline-engine-headless.platform.svc:6222"
        assert route in there.values(CONFIG_SECRET)["nats.conf"]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
async def test_another_number_of_servers_is_refused_until_it_is_meant(
    before: int, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster()
    await Keeping(cluster, replicas=before).manager.refresh()
    values = Keeping(cluster).values(CONFIG_SECRET)
    there = Keeping(cluster, replicas=after)
    with caplog.at_level(logging.ERROR):
        assert not await there.manager.refresh()
        assert not await there.manager.refresh()
    assert there.values(CONFIG_SECRET) == values, "servers go on with what they have stored"
    assert there.manager.streams_kept
    assert there.manager.signer is not None, "pods get credentials"
    (line,) = caplog.records
    assert f"to {before} again" in line.getMessage()
    assert "Change the number of engines" in line.getMessage()

    # The administrator has saved the streams, and deletes the Secret.
    cluster.remove(SECRETS, CONFIG_SECRET, PLATFORM)
    assert await there.manager.refresh()
    assert there.values(CONFIG_SECRET) != values
    assert not there.manager.streams_kept


async def test_the_number_of_foreign_servers_may_change() -> None:
    cluster = FakeCluster()
    await Keeping(cluster, replicas=1).manager.refresh()
    manager = KeyManager(
        cluster, cluster, namespace=PLATFORM, replicas=3, own_servers=False, changed=lambda: None
    )
    assert await manager.refresh()


async def test_another_look_and_another_leader_write_nothing() -> None:
    there = Keeping(FakeCluster())
    await there.manager.refresh()
    before = there.cluster.writes
    await there.manager.refresh()
    successor = Keeping(there.cluster)
    await successor.manager.refresh()
    assert there.cluster.writes == before
    assert successor.manager.signer is not None
    assert there.manager.signer is not None
    assert successor.manager.signer.signer.public_key == there.manager.signer.signer.public_key


async def test_keys_of_an_administrator_are_used_and_left_alone() -> None:
    there = Keeping(FakeCluster())
    values = whole_trust()
    there.put_trust(values)
    assert await there.manager.refresh()
    assert there.values(TRUST_SECRET) == values
    assert (
        EngineTrust.from_values({k: v.encode() for k, v in values.items()}).account.public_key
        in (there.values(CONFIG_SECRET)["nats.conf"])
    )


async def test_the_api_gets_the_key_by_which_it_signs_users_in_environments() -> None:
    there = Keeping(FakeCluster())
    there.put_trust(whole_trust())
    assert await there.manager.refresh()
    assert there.manager.keys is not None
    first = there.values(API_SECRET)
    assert first["signer.seed"] == there.manager.keys.trust.api.seed
    assert KeyPair.from_seed(first["signer.seed"]).public_key != there.manager.keys.trust.signer.public_key
    there.put_trust(there.values(TRUST_SECRET) | {"api-seed": EngineTrust().api.seed})
    assert await there.manager.refresh()
    assert (
        there.values(API_SECRET)["signer.seed"] == there.manager.keys.trust.api.seed != first["signer.seed"]
    )


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "operator-seed is missing"),
        (whole_trust() | {"signer-seed": "SUPERSECRET"}, "signer-seed is no seed"),
        (
            whole_trust() | {"signer-seed": EngineTrust().operator.seed},
            "signer-seed is a seed of another kind",
        ),
        (whole_trust() | {"encryption-key": ""}, "encryption-key is missing"),
        (whole_trust() | {"previous-signer": "x"}, "previous-signer is no public key"),
        (whole_trust() | {"api-seed": EngineTrust().operator.seed}, "api-seed is a seed of another kind"),
    ],
)
async def test_keys_that_cannot_be_used_are_told_once_and_left_alone(
    values: dict[str, str], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    there = Keeping(FakeCluster())
    there.put_trust(values)
    before = there.values(TRUST_SECRET)
    with caplog.at_level(logging.INFO):
        assert not await there.manager.refresh()
        assert not await there.manager.refresh()
    assert caplog.text.count(named) == 1
    assert named in there.manager.problem
    assert there.values(TRUST_SECRET) == before
    assert there.manager.signer is None
    assert not any(secret in caplog.text for secret in values.values() if len(secret) > 1)

    there.put_trust(whole_trust())
    assert await there.manager.refresh()
    assert there.manager.problem == ""


async def test_another_signer_reaches_the_servers_the_api_and_the_environments() -> None:
    there = Keeping(FakeCluster())
    first = whole_trust()
    there.put_trust(first)
    await there.manager.refresh()
    api, config = there.values(API_SECRET), there.values(CONFIG_SECRET)
    assert there.changes == 1

    previous = EngineTrust.from_values({k: v.encode() for k, v in first.items()}).signer.public_key
    there.put_trust(first | {"signer-seed": EngineTrust().signer.seed, "previous-signer": previous})
    await there.manager.refresh()
    assert there.changes == 2, "environments are reconciled again"
    assert there.values(API_SECRET) != api
    assert there.values(CONFIG_SECRET) != config


async def test_the_apis_credentials_are_renewed_and_repaired() -> None:
    there = Keeping(FakeCluster())
    await there.manager.refresh()
    before = there.values(API_SECRET)
    there.now += timedelta(days=19)
    await there.manager.refresh()
    assert there.values(API_SECRET) == before
    there.now += timedelta(days=2)
    await there.manager.refresh()
    assert there.values(API_SECRET) != before

    there.cluster.edited(SECRETS, API_SECRET, PLATFORM)["data"] = {}
    await there.manager.refresh()
    assert Credentials.parse(there.values(API_SECRET)["engine.creds"])


async def test_a_configuration_that_somebody_changed_is_put_right() -> None:
    there = Keeping(FakeCluster())
    await there.manager.refresh()
    before = there.values(CONFIG_SECRET)
    there.cluster.edited(SECRETS, CONFIG_SECRET, PLATFORM)["data"]["nats.conf"] = "eA=="
    await there.manager.refresh()
    assert there.values(CONFIG_SECRET) == before


async def test_where_rights_are_missing_the_operator_says_so_and_keeps_what_it_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    there = Keeping(FakeCluster())
    await there.manager.refresh()
    keys = there.manager.keys

    class Refusing(FakeCluster):
        async def get(self, *_: Any, **__: Any) -> Any:
            raise Forbidden("secrets is forbidden")

    there.manager._kube = Refusing()
    assert not await there.manager.refresh()
    assert "Secrets of the event engine cannot be kept" in caplog.text
    assert there.manager.keys == keys
