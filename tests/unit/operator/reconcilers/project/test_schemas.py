"""A project says when its schema of variables cannot be used; what serves goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.harness.inputs.hostile_schemas import SLOW_VALUES, doubling, slow
from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.evaluation.variables_checker import VariablesChecker
from tieline_core.kubernetes import resources as r

PROJECT, ACTIVATION = (r.PROJECTS, "order-sync"), (r.ACTIVATIONS, "for-ann")
# Checked in a process.
UNCOMMON = {"properties": {"regions": {"type": "array", "uniqueItems": True}}}


def cluster(schema: dict[str, Any], **variables: Any) -> FakeCluster:
    made = FakeCluster(
        o.project(dynamicVariablesSchema=schema, environments=[{"name": "production"}]),
        o.end_user(),
        o.activation(variables=variables),
    )
    made.put(r.NAMESPACES, o.namespace())
    return made


async def until_ready(there: ReconcileLoop, which: Any, status: str, reason: str) -> str:
    """What is said once Ready is this: reconciled again as when a verdict is known."""
    async with asyncio.timeout(60):
        while True:
            await there.until_quiet()
            stored = there.cluster.objects[which[0]][o.NAMESPACE, which[1]]
            if "conditions" in stored.get("status", {}):
                found, got, message = there.ready(*which)
                if (found, got) == (status, reason):
                    return message
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("schema", "words"),
    [({"type": "objekt"}, '"objekt"'), (doubling(20), "$ref"), ({"$ref": "#/$defs/none"}, "/$defs/none")],
    ids=["a type that is none", "too much", "a reference to nothing"],
)
async def test_a_project_whose_schema_cannot_be_used_is_not_ready(schema: Any, words: str) -> None:
    there = ReconcileLoop(cluster(schema), checker=VariablesChecker())
    message = await until_ready(there, PROJECT, "False", "SchemaInvalid")
    assert words in message
    assert "correct spec.dynamicVariablesSchema" in message
    good = o.project(dynamicVariablesSchema=UNCOMMON, environments=[{"name": "production"}])
    await there.changed(r.PROJECTS, good)
    await until_ready(there, PROJECT, "True", "Draft")


async def test_a_schema_that_is_being_checked_is_unknown_and_what_was_said_before_stays() -> None:
    there = ReconcileLoop(cluster(UNCOMMON), checker=VariablesChecker())
    await there.once(*PROJECT)
    assert there.ready(*PROJECT)[:2] == ("Unknown", "SchemaUnchecked")
    await until_ready(there, PROJECT, "True", "Draft")
    # Another operator starts: it knows no verdict yet, and changes nothing.
    writes = there.cluster.writes
    again = ReconcileLoop(there.cluster, checker=VariablesChecker())
    await again.once(*PROJECT)
    await again.once(*ACTIVATION)
    assert there.cluster.writes == writes


async def test_variables_that_take_too_long_are_told_on_their_activation_alone() -> None:
    there = ReconcileLoop(cluster(slow(), **SLOW_VALUES), checker=VariablesChecker())
    message = await until_ready(there, ACTIVATION, "False", "VariablesTooCostly")
    assert "fewer or smaller values" in message
    assert there.ready(*PROJECT)[0] == "True"
