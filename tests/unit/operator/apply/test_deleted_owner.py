"""Children of an object that is deleted are not made again, however long it takes the operator to hear of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, NOW
from tieline_core.identity.ids import ID_LABEL
from tieline_core.kubernetes.resources import DEPLOYMENTS, PROJECTS
from tieline_operator.apply.applier import Applier
from tieline_operator.apply.diff import stamped
from tieline_operator.apply.drift import DriftReporter
from tieline_operator.apply.event_recorder import EventRecorder
from tieline_operator.apply.plan import Child, Plan, ready

PROJECT = {
    "kind": "Project",
    "metadata": {
        "name": "orders",
        "namespace": NAMESPACE,
        "uid": "1",
        "resourceVersion": "1",
        "generation": 1,
        "labels": {ID_LABEL: "01M8AJ1R50S9SNNXWV7ZARMV2R"},
    },
}
DESIRED = stamped(
    {
        "kind": "Deployment",
        "metadata": {"name": "orders", "namespace": NAMESPACE, "ownerReferences": [{"uid": "1"}]},
        "spec": {"replicas": 1},
    }
)


def changed(**metadata: Any) -> dict[str, Any]:
    return {**PROJECT, "metadata": {**PROJECT["metadata"], **metadata}}


@pytest.mark.parametrize(
    ("live", "made"),
    [
        pytest.param(None, False, id="it is gone"),
        pytest.param(changed(uid="2"), False, id="another one has its name"),
        pytest.param(changed(deletionTimestamp="2026-11-25T12:00:00Z"), False, id="it is being deleted"),
        pytest.param(changed(resourceVersion="2"), True, id="it is there"),
    ],
)
async def test_a_child_that_was_deleted(live: dict[str, Any] | None, made: bool) -> None:
    cluster = FakeCluster()
    events = EventRecorder(cluster)
    drifts = DriftReporter(cluster, events)
    applier = Applier(cluster, cluster, cluster, events, drifts)
    if live is not None:
        cluster.put(PROJECTS, live)
    drifts.gone(DEPLOYMENTS, {**DESIRED, "metadata": {**DESIRED["metadata"], "uid": "7"}})
    plan = Plan(
        outcome=ready("Running", "It runs"),
        children=(Child(resource=DEPLOYMENTS, desired=DESIRED, actual=None),),
    )
    await applier.carry_out(PROJECTS, PROJECT, plan, NOW)
    assert bool(cluster.objects[DEPLOYMENTS]) is made
    assert bool(cluster.posted) is made
