"""A watch that waits for a version which a restored server may never reach says nothing at all."""

import pytest

from tests.harness.session.waiting import until
from tests.unit.kubernetes.fake_api_server import FakeApiServer
from tieline_core.kubernetes import Informer, Kube, informer
from tieline_core.kubernetes.resources import CONFIG_MAPS


async def test_a_watch_that_brought_not_even_a_bookmark_is_followed_by_a_list(
    server: FakeApiServer, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "_MUTE", 0.0)
    server.put("old")
    mirror = Informer(kube, CONFIG_MAPS)
    await mirror.start()
    await mirror.synced()
    await until(lambda: server.watches == 1)

    server.silent = True
    server.objects.clear()
    server.history.clear()
    server.revision = 10
    server.put("restored")
    server.break_watches()

    await until(lambda: [obj["metadata"]["name"] for obj in mirror.list()] == ["restored"])
    await mirror.stop()


async def test_a_watch_that_had_news_goes_on_without_a_list(
    server: FakeApiServer, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "_MUTE", 0.0)
    mirror = Informer(kube, CONFIG_MAPS)
    await mirror.start()
    await mirror.synced()
    server.bookmark()
    await until(lambda: server.watches == 1)
    assert await mirror.reached(str(server.revision))
    server.break_watches()
    await until(lambda: server.count("watch") == 2)
    assert server.count("list") == 1
    await mirror.stop()
