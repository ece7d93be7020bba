"""A connection says that its system refuses requests, since when and how often, and that it accepts them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.credentials.refusals import ANNOTATION
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.conditions import find_condition
from tieline_operator.metrics import Metrics

REFUSED = {"status": 401, "count": 12, "since": "2026-11-25T10:00:00Z", "last": "2026-11-25T10:05:00Z"}


def connected() -> ReconcileLoop:
    world = FakeCluster(o.system(), o.connection())
    world.put(r.SECRETS, o.secret())
    world.put(r.NAMESPACES, o.namespace())
    return ReconcileLoop(world)


async def reported(there: ReconcileLoop, text: str) -> Mapping[str, Any] | None:
    """The condition, once pods' reports are in the annotation."""
    there.world.edited(r.CONNECTIONS, "login")["metadata"]["annotations"] = {ANNOTATION: text}
    await there.until_quiet()
    return find_condition(there.world[r.CONNECTIONS].get(o.NAMESPACE, "login"), "CredentialsAccepted")


async def test_it_says_so_and_recovers_and_can_be_used_all_the_while() -> None:
    there = connected()
    await there.until_quiet()
    refused = await reported(there, json.dumps(REFUSED))
    assert refused
    assert (refused["status"], refused["reason"]) == ("False", "RequestsRefused")
    assert (
        "at least 12 requests with 401 from 2026-11-25T10:00:00Z to 2026-11-25T10:05:00Z"
        in refused["message"]
    )
    assert there.ready(r.CONNECTIONS, "login")[0] == "True"
    accepted = await reported(there, json.dumps({**REFUSED, "accepted": "2026-11-25T11:00:00Z"}))
    assert accepted
    assert (accepted["status"], accepted["reason"]) == ("True", "RequestsAccepted")
    assert "since 2026-11-25T11:00:00Z" in accepted["message"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "x", '{"status": "a"}', json.dumps({**REFUSED, "since": "soon"}), "null"]
)
async def test_what_others_have_written_there_is_no_condition(text: str) -> None:
    there = connected()
    assert await reported(there, text) is None


async def test_a_metric_counts_the_connections_that_are_refused() -> None:
    there = connected()
    await reported(there, json.dumps(REFUSED))
    metrics = Metrics()
    metrics.watch_objects(lambda: {r.CONNECTIONS: there.world[r.CONNECTIONS].list()})
    assert b"tieline_operator_connections_refused 1.0" in generate_latest(metrics.registry)


async def test_the_metric_names_them_where_names_are_wanted_and_is_gone_once_they_are_accepted() -> None:
    there = connected()
    await reported(there, json.dumps(REFUSED))
    metrics = Metrics(object_names=True)
    metrics.watch_objects(lambda: {r.CONNECTIONS: there.world[r.CONNECTIONS].list()})
    (found,) = there.world[r.CONNECTIONS].list()
    place = f'object="login",object_namespace="{found["metadata"]["namespace"]}"'
    line = f"tieline_operator_connections_refused{{{place}}} 1.0"
    assert line.encode() in generate_latest(metrics.registry)
    await reported(there, json.dumps({**REFUSED, "accepted": "2026-11-25T11:00:00Z"}))
    assert b"tieline_operator_connections_refused{" not in generate_latest(metrics.registry)
