"""An object whose event overtook the operator's cache is looked at once the cache knows it."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.operator.reconcile_loop import CONFIG
from tieline_core.kubernetes import Change, Kube
from tieline_core.kubernetes.resources import END_USERS
from tieline_operator.apply.plan import Key
from tieline_operator.controller.manager import Manager
from tieline_operator.metrics import Metrics

USER: dict[str, Any] = {
    "kind": "EndUser",
    "metadata": {
        "name": "ann",
        "namespace": "acme",
        "uid": "1",
        "resourceVersion": "9",
        "creationTimestamp": "2026-11-21T12:00:00Z",
    },
    "spec": {"externalId": "ann"},
}
KEY = Key("EndUser", "acme", "ann")


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> tuple[Manager, list[Key]]:
    """A leading operator whose cache is behind, and the keys that it is to look at."""
    config = CONFIG.model_copy(update={"leader_elect": False})
    service = Manager(config, cast("Kube", SimpleNamespace(requests=Counter())), Metrics())
    keys: list[Key] = []
    monkeypatch.setattr(service, "queue", SimpleNamespace(add=keys.append))
    service.leading = True

    async def reached(*_: Any) -> bool:
        return False

    monkeypatch.setattr(service.cache[END_USERS], "reached", reached)
    return service, keys


async def test_the_change_that_makes_up_for_a_late_cache_has_the_object_looked_at(
    looked_at: tuple[Manager, list[Key]],
) -> None:
    service, keys = looked_at
    await service.handle_event(END_USERS, USER["metadata"])
    assert keys == [KEY], "nothing is in the cache, and so nothing was done"
    service._changed(END_USERS, Change(old=None, new=USER))
    assert keys == [KEY, KEY]
    service._changed(END_USERS, Change(old=USER, new={**USER, "status": {}}))
    assert keys == [KEY, KEY], "its own status is no news"
