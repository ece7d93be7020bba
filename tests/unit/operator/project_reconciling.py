"""A project, and an operator that reconciles it in memory."""

from __future__ import annotations

from typing import Any

from tests.unit.operator.memory_world import MemoryWorld
from tests.unit.operator.objects import namespace, project
from tests.unit.operator.reconciling import CONFIG, Reconciling
from tieline_core.kube import resources as r
from tieline_operator.config import Config

MAIN = "main.py"


def reconciling(*objects: Any, organisation: bool = True, config: Config = CONFIG) -> Reconciling:
    world = MemoryWorld(*objects)
    world.put(r.NAMESPACES, namespace() if organisation else namespace(organisation=None))
    return Reconciling(world, config=config)


def source(text: str) -> dict[str, Any]:
    return {"files": [{"filename": MAIN, "content": text}]}


def change(there: Reconciling, **spec: Any) -> None:
    """A user edits the project."""
    stored = there.world.edited(r.PROJECTS, "order-sync")
    stored["spec"].update(spec)
    stored["metadata"]["generation"] += 1


async def running(*, config: Config = CONFIG, **spec: Any) -> Reconciling:
    there = reconciling(project(**spec), config=config)
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    return there
