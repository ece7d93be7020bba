"""News of objects: what people ask for is looked at at once, what follows from it a moment later."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.unit.operator.reconcile_loop import CONFIG
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL, PROJECT_LABEL
from tieline_core.kubernetes import Change
from tieline_core.kubernetes.resources import DEPLOYMENTS, PROJECTS
from tieline_operator.apply.plan import Key
from tieline_operator.controller.manager import Manager
from tieline_operator.metrics import Metrics

if TYPE_CHECKING:
    from tieline_core.kubernetes import Kube

KEY = Key("Project", "acme", "orders")


def project(version: int, generation: int, observed: int | None) -> dict[str, Any]:
    metadata = {
        "name": "orders",
        "namespace": "acme",
        "uid": "1",
        "creationTimestamp": "2026-11-21T12:00:00Z",
    }
    return {
        "metadata": {**metadata, "resourceVersion": str(version), "generation": generation},
        "spec": {"name": "Orders"},
        **({"status": {"observedGeneration": observed}} if observed else {}),
    }


class Looks:
    """Takes the queue's place."""

    def __init__(self) -> None:
        self.at_once: list[Key] = []
        self.soon: list[Key] = []

    def add(self, key: Key) -> None:
        self.at_once.append(key)

    def add_debounced(self, key: Key) -> None:
        self.soon.append(key)


@pytest.fixture
def leading(monkeypatch: pytest.MonkeyPatch) -> tuple[Manager, Looks]:
    config = CONFIG.model_copy(update={"leader_elect": False})
    service = Manager(config, cast("Kube", SimpleNamespace(requests=Counter())), Metrics())
    looks = Looks()
    monkeypatch.setattr(service, "queue", looks)
    service.leading = True

    async def reached(*_: Any) -> bool:
        return True

    monkeypatch.setattr(service.cache[PROJECTS], "reached", reached)
    return service, looks


@pytest.mark.parametrize(
    ("known", "at_once"),
    [
        pytest.param(None, True, id="gone"),
        pytest.param(project(2, 1, None), True, id="new"),
        pytest.param(project(2, 2, 1), True, id="changed"),
        pytest.param(project(2, 2, 2), False, id="its status was written"),
    ],
)
async def test_what_is_asked_for_is_looked_at_at_once(
    leading: tuple[Manager, Looks], known: dict[str, Any] | None, at_once: bool
) -> None:
    service, looks = leading
    if known:
        service.cache.observe(PROJECTS, known)
    await service.handle_event(PROJECTS, project(2, 1, None)["metadata"])
    assert (looks.at_once, looks.soon) == (([KEY], []) if at_once else ([], [KEY]))


async def test_what_becomes_of_a_workload_is_looked_at_together(leading: tuple[Manager, Looks]) -> None:
    service, looks = leading
    service.cache.observe(PROJECTS, project(2, 1, 1))
    labels = {PROJECT_LABEL: "orders", ENVIRONMENT_ID_LABEL: "01M80JXM4R3ZHNXPA4H0RGWEFG"}
    owner = {"kind": "Project", "name": "orders", "uid": "1", "controller": True}
    metadata = {"name": "w", "namespace": "acme", "uid": "2", "labels": labels, "ownerReferences": [owner]}
    looks.soon.clear()
    service._changed(DEPLOYMENTS, Change(old=None, new={"metadata": {**metadata, "resourceVersion": "3"}}))
    assert (looks.at_once, looks.soon) == ([], [KEY])
