"""Secrets that a reference names before the watch has brought them."""

from typing import Any

from tieline_api.credentials.secret_reader import SecretReader
from tieline_core.kubernetes import Unavailable

SECRET = {"metadata": {"name": "login", "namespace": "acme"}, "type": "tieline.dev/credential"}


class Cluster:
    """A cache and the API server behind it."""

    def __init__(self) -> None:
        self.cached: dict[tuple[str, str], Any] = {}
        self.there: list[Any] = []
        self.asked = 0
        self.now = 0.0
        self.away = False
        self.reads = SecretReader(self, self, clock=lambda: self.now)  # type: ignore[arg-type]

    def get(self, namespace: str, name: str) -> Any:
        return self.cached.get((namespace, name))

    def observe(self, obj: Any) -> None:
        self.cached[obj["metadata"]["namespace"], obj["metadata"]["name"]] = obj

    async def list(self, _resource: Any, _namespace: str, *, field_selector: str) -> list[Any]:
        self.asked += 1
        if self.away:
            raise Unavailable("away")
        assert "type=tieline.dev/credential" in field_selector, "no other type is ever read"
        return self.there


async def test_one_that_the_watch_has_not_brought_yet_is_found_and_kept() -> None:
    cluster = Cluster()
    cluster.there = [SECRET]
    assert await cluster.reads.get("acme", "login") == SECRET
    assert await cluster.reads.get("acme", "login") == SECRET
    assert cluster.asked == 1


async def test_one_that_is_absent_is_not_asked_for_again_at_once() -> None:
    cluster = Cluster()
    for _ in range(3):
        assert await cluster.reads.get("acme", "login") is None
    assert cluster.asked == 1
    cluster.there, cluster.now = [SECRET], 3.0
    assert await cluster.reads.get("acme", "login") == SECRET


async def test_pods_are_served_from_the_cache_while_kubernetes_is_away() -> None:
    cluster = Cluster()
    cluster.away = True
    await cluster.reads.fetch("acme", ["login"])
    assert cluster.asked == 1
