"""A project, and an operator that reconciles it in memory."""

from __future__ import annotations

from typing import Any

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import namespace, project
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop
from tieline_core.engine.trust import AccountSigner
from tieline_core.kubernetes import resources as r
from tieline_operator.config import Config

MAIN = "main.py"


def reconciling(
    *objects: Any,
    organisation: bool = True,
    config: Config = CONFIG,
    engine_signer: AccountSigner | None = None,
) -> ReconcileLoop:
    cluster = FakeCluster(*objects)
    cluster.put(r.NAMESPACES, namespace() if organisation else namespace(organisation=None))
    return ReconcileLoop(cluster, config=config, engine_signer=engine_signer)


def source(text: str) -> dict[str, Any]:
    return {"files": [{"filename": MAIN, "content": text}]}


def change(there: ReconcileLoop, **spec: Any) -> None:
    """A user edits the project."""
    stored = there.cluster.edited(r.PROJECTS, "order-sync")
    stored["spec"].update(spec)
    stored["metadata"]["generation"] += 1


async def running(*, config: Config = CONFIG, **spec: Any) -> ReconcileLoop:
    there = reconciling(project(**spec), config=config)
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    return there
