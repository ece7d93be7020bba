"""What the versions of a project are called, as files come and go."""

from __future__ import annotations

from typing import Any

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import namespace, project
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.kubernetes import resources as r

ONE, TWO = "print('one')\n", "print('two')\n"


async def test_after_a_rollback_a_version_that_served_is_superseded_and_no_draft() -> None:
    there = ReconcileLoop(FakeCluster(project(source=_source(ONE))))
    there.cluster.put(r.NAMESPACES, namespace())
    first = await _deployed(there)
    second = await _deployed(there, TWO)
    assert _states(there) == {first: "superseded", second: "ready"}
    assert await _deployed(there, ONE) == first
    assert _states(there) == {first: "ready", second: "superseded"}
    told = there.ready(r.PROJECT_VERSIONS, second)[2]
    assert told == "The files are sound; another version took its place"


def _source(text: str) -> dict[str, Any]:
    return {"files": [{"filename": "main.py", "content": text}]}


def _states(there: ReconcileLoop) -> dict[str, str]:
    return {
        version["metadata"]["name"]: version["status"]["state"]
        for version in there.cluster[r.PROJECT_VERSIONS].list()
    }


async def _deployed(there: ReconcileLoop, text: str | None = None) -> str:
    """The version that runs once all is quiet, after a change of the files if there is one."""
    stored = there.cluster.edited(r.PROJECTS, "order-sync")
    if text is not None:
        stored["spec"]["source"] = _source(text)
        stored["metadata"]["generation"] += 1
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    return str(there.environment()["version"])
