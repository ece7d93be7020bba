"""When API keys were last used: noted once in an hour, and known at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_api.auth.api_keys import ApiKeys, manifest, new_key
from tieline_api.auth.key_uses import USED, KeyUses
from tieline_core.identity.ids import format_time, new_id
from tieline_core.kubernetes import NotFound

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ORGANISATION = new_id()


class Cluster:
    """The Secrets of keys, as cache and as API server."""

    def __init__(self) -> None:
        self.secrets: dict[str, Any] = {}
        self.writes = 0
        self.now = NOON
        self.uses = KeyUses(self, now=lambda: self.now)  # type: ignore[arg-type]

    def add(self) -> str:
        key = new_key(ORGANISATION)
        secret = manifest(key, namespace="acme", user="ci")
        secret["metadata"]["uid"] = "1"
        self.secrets[secret["metadata"]["name"]] = secret
        return key

    def get(self, _namespace: str, name: str) -> Any:
        return self.secrets.get(name)

    async def patch(self, _resource: Any, name: str, _namespace: str, patch: Any, **_: Any) -> None:
        self.writes += 1
        if name not in self.secrets:
            raise NotFound("gone")
        self.secrets[name]["metadata"]["annotations"] |= patch["metadata"]["annotations"]

    def use(self, key: str) -> bool:
        keys = ApiKeys(self, {ORGANISATION: "acme"}.get, now=lambda: self.now, used=self.uses.add)  # type: ignore[arg-type]
        return keys.caller(key) is not None


async def test_a_use_is_known_at_once_and_noted_once_an_hour() -> None:
    there = Cluster()
    key = there.add()
    (secret,) = there.secrets.values()
    assert there.uses.last(secret) is None
    assert there.use(key)
    assert there.uses.last(secret) == NOON
    await there.uses.note()
    assert secret["metadata"]["annotations"][USED] == format_time(NOON)
    there.now += timedelta(minutes=30)
    assert there.use(key)
    await there.uses.note()
    assert there.writes == 1
    there.now += timedelta(minutes=31)
    assert there.use(key)
    await there.uses.note()
    assert there.writes == 2
    assert KeyUses(there).last(secret) == there.now, "another replica"  # type: ignore[arg-type]


async def test_a_key_that_is_gone_or_refused_is_not_noted() -> None:
    there = Cluster()
    key = there.add()
    assert there.use(key)
    there.secrets.clear()
    await there.uses.note()
    await there.uses.note()
    assert there.writes == 1
    assert not there.use(new_key(ORGANISATION))


async def test_an_annotation_that_is_no_time_is_none() -> None:
    there = Cluster()
    there.add()
    (secret,) = there.secrets.values()
    secret["metadata"]["annotations"][USED] = "yesterday"
    assert there.uses.last(secret) is None
