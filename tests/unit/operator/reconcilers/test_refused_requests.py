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
from tieline_core.credentials.connection_state import LAST_SUCCESS, LAST_SUCCESS_OF
from tieline_core.credentials.refusals import ANNOTATION, fingerprint
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.conditions import find_condition
from tieline_operator.metrics import Metrics

REFUSED = {"status": 401, "count": 12, "since": "2026-11-25T10:00:00Z", "last": "2026-11-25T10:05:00Z"}


def connected() -> ReconcileLoop:
    cluster = FakeCluster(o.system(), o.connection())
    cluster.put(r.SECRETS, o.secret())
    cluster.put(r.NAMESPACES, o.namespace())
    return ReconcileLoop(cluster)


async def reported(there: ReconcileLoop, text: str = "", *, success_of: str = "") -> Mapping[str, Any]:
    """The condition, once reports are in the annotations."""
    annotations = {ANNOTATION: text} if text else {}
    if success_of:
        annotations |= {LAST_SUCCESS: "2026-11-25T11:00:00Z", LAST_SUCCESS_OF: success_of}
    there.cluster.edited(r.CONNECTIONS, "login")["metadata"]["annotations"] = annotations
    return await condition(there)


async def condition(there: ReconcileLoop) -> Mapping[str, Any]:
    await there.until_quiet()
    found = find_condition(there.cluster[r.CONNECTIONS].get(o.NAMESPACE, "login"), "CredentialsAccepted")
    assert found
    return found


async def test_it_says_so_and_recovers_and_can_be_used_all_the_while() -> None:
    there = connected()
    await there.until_quiet()
    refused = await reported(there, json.dumps(REFUSED))
    assert refused
    assert (refused["status"], refused["reason"]) == ("False", "Refused")
    assert (
        "at least 12 requests with 401 from 2026-11-25T10:00:00Z to 2026-11-25T10:05:00Z"
        in refused["message"]
    )
    assert there.ready(r.CONNECTIONS, "login")[0] == "True"
    text = json.dumps({**REFUSED, "accepted": "2026-11-25T11:00:00Z"})
    accepted = await reported(there, text, success_of=fingerprint(o.connection()))
    assert (accepted["status"], accepted["reason"]) == ("True", "Works")
    assert "since 2026-11-25T11:00:00Z" in accepted["message"]


async def test_it_shows_what_the_system_said() -> None:
    refused = await reported(connected(), json.dumps({**REFUSED, "said": "key revoked\n"}))
    assert '401 ("key revoked") from' in refused["message"]


async def test_nothing_works_before_a_request_has_succeeded() -> None:
    there = connected()
    assert (await condition(there))["reason"] == "NotChecked"
    assert (await reported(there, success_of=fingerprint(o.connection())))["reason"] == "Works"
    assert (await reported(there, success_of="of other credentials"))["reason"] == "NotChecked"


async def test_a_connection_that_nobody_has_authorised_says_so() -> None:
    cluster = FakeCluster(
        o.system(authSchemeConfigs=[{"id": "basic", "type": "basic-auth"}]),
        o.connection(credentials=[{"id": "main", "authSchemeConfigId": "basic", "type": "none"}]),
    )
    cluster.put(r.NAMESPACES, o.namespace())
    found = await condition(ReconcileLoop(cluster))
    assert (found["status"], found["reason"]) == ("Unknown", "NotAuthorised")


async def test_new_credentials_end_a_refusal() -> None:
    there = connected()
    old = json.dumps({**REFUSED, "of": fingerprint(o.connection())})
    assert (await reported(there, old))["reason"] == "Refused"
    there.cluster.edited(r.CONNECTIONS, "login")["spec"]["baseUrl"] = "https://other.example"
    assert (await condition(there))["reason"] == "NotChecked"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "x", '{"status": "a"}', json.dumps({**REFUSED, "since": "soon"}), "null", "1"]
)
async def test_what_others_have_written_there_says_nothing(text: str) -> None:
    assert (await reported(connected(), text))["reason"] == "NotChecked"


async def test_a_metric_counts_the_connections_that_are_refused() -> None:
    there = connected()
    await reported(there, json.dumps(REFUSED))
    metrics = Metrics()
    metrics.watch_objects(lambda: {r.CONNECTIONS: there.cluster[r.CONNECTIONS].list()})
    assert b"tieline_operator_connections_refused 1.0" in generate_latest(metrics.registry)


async def test_the_metric_names_them_where_names_are_wanted_and_is_gone_once_they_are_accepted() -> None:
    there = connected()
    await reported(there, json.dumps(REFUSED))
    metrics = Metrics(object_names=True)
    metrics.watch_objects(lambda: {r.CONNECTIONS: there.cluster[r.CONNECTIONS].list()})
    (found,) = there.cluster[r.CONNECTIONS].list()
    place = f'object="login",object_namespace="{found["metadata"]["namespace"]}"'
    line = f"tieline_operator_connections_refused{{{place}}} 1.0"
    assert line.encode() in generate_latest(metrics.registry)
    await reported(there, json.dumps({**REFUSED, "accepted": "2026-11-25T11:00:00Z"}))
    assert b"tieline_operator_connections_refused{" not in generate_latest(metrics.registry)
