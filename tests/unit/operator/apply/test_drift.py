"""What others do to children is told to people: what, where, by whom; and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE
from tieline_core.kubernetes import Resource, Unavailable
from tieline_core.kubernetes.resources import DEPLOYMENTS, NETWORK_POLICIES
from tieline_operator.apply.diff import differing, format_path, stamped
from tieline_operator.apply.drift import QUIET_SECONDS, DriftReporter
from tieline_operator.apply.event_recorder import EventRecorder

OWNER = {
    "kind": "Project",
    "metadata": {"name": "orders", "namespace": NAMESPACE, "uid": "1", "resourceVersion": "1"},
}


def wanted(kind: str = "Deployment", *, owner: str = "1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": "orders-production", "namespace": NAMESPACE, "ownerReferences": [{"uid": owner}]}
    return stamped({"kind": kind, "metadata": metadata, "spec": {"replicas": 1, **spec}})


def found(desired: dict[str, Any], *, uid: str = "7", **spec: Any) -> dict[str, Any]:
    """As it is in the cluster, with what somebody changed."""
    return {**desired, "metadata": {**desired["metadata"], "uid": uid}, "spec": {**desired["spec"], **spec}}


def managed(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    more = {"subresource": subresource} if subresource else {}
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, **more}


class Telling:
    """DriftReporter over a cluster in memory, at a time that the test sets, and what is told."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.now = 1000.0
        self.counted: list[tuple[str, str]] = []
        self.drifts = DriftReporter(
            self.cluster,
            EventRecorder(self.cluster),
            lambda kind, what: self.counted.append((kind, what)),
            clock=lambda: self.now,
        )

    @property
    def told(self) -> list[str]:
        assert all(event["reason"] == "DriftRepaired" for event in self.cluster.posted)
        assert all(event["type"] == "Warning" for event in self.cluster.posted)
        return [event["note"] for event in self.cluster.posted]

    async def changed(
        self,
        desired: dict[str, Any],
        actual: dict[str, Any],
        *managers: Any,
        resource: Resource = DEPLOYMENTS,
    ) -> None:
        live = {**actual, "metadata": {**actual["metadata"], "managedFields": list(managers)}}
        self.cluster.put(resource, live)
        drift = await self.drifts.changed(resource, desired, actual)
        if drift:
            await self.drifts.report(DEPLOYMENTS, OWNER, drift)

    async def missing(self, desired: dict[str, Any]) -> None:
        drift = self.drifts.missing(DEPLOYMENTS, desired)
        if drift:
            await self.drifts.report(DEPLOYMENTS, OWNER, drift)


@pytest.fixture
def telling() -> Telling:
    return Telling()


async def test_a_changed_field_is_told_with_its_manager(telling: Telling) -> None:
    desired = wanted(template={"containers": [{"name": "runtime", "env": [{"name": "A", "value": "1"}]}]})
    actual = found(
        desired, template={"containers": [{"name": "runtime", "env": [{"name": "A", "value": "secret"}]}]}
    )
    by_name = {'k:{"name":"runtime"}': {"f:env": {'k:{"name":"A"}': {"f:value": {}}}}}
    tree = {"f:spec": {"f:template": {"f:containers": by_name}}}
    others = {"f:spec": {"f:paused": {}}}
    await telling.changed(desired, actual, managed("kubectl-set", tree), managed("elsewhere", others))
    (message,) = telling.told
    assert "Deployment orders-production was changed by kubectl-set" in message
    assert "spec.template.containers[runtime].env[A].value" in message
    assert "secret" not in message
    assert telling.counted == [("Deployment", "changed")]


async def test_a_list_that_is_one_value_is_told_by_its_name(telling: Telling) -> None:
    desired = wanted("NetworkPolicy", egress=[{"to": []}])
    tree = {"f:spec": {"f:egress": {}}}
    await telling.changed(
        desired, found(desired, egress=[]), managed("kubectl-edit", tree), resource=NETWORK_POLICIES
    )
    assert "changed by kubectl-edit, and has been put right: spec.egress" in telling.told[0]


async def test_what_was_removed_belongs_to_nobody_and_is_told_all_the_same(telling: Telling) -> None:
    desired = wanted()
    actual = {**found(desired), "spec": {}}
    await telling.changed(desired, actual)
    assert "was changed, and has been put right: spec.replicas" in telling.told[0]


async def test_who_it_was_is_left_out_where_it_cannot_be_asked(telling: Telling) -> None:
    async def away(*_: Any) -> Any:
        raise Unavailable("away")

    telling.cluster.get = away  # type: ignore[method-assign]
    desired = wanted()
    await telling.changed(desired, found(desired, replicas=3))
    assert "was changed, and" in telling.told[0]


async def test_the_operators_own_change_is_no_drift(telling: Telling) -> None:
    before = wanted()
    await telling.changed(wanted(replicas=3), found(before))
    assert telling.told == []
    assert telling.counted == []


@pytest.mark.parametrize(
    ("manager", "told"), [("kube-controller-manager", 0), ("keda-operator", 0), ("kubectl", 1)]
)
async def test_an_autoscalers_number_is_counted_and_a_persons_told(
    telling: Telling, manager: str, told: int
) -> None:
    desired = wanted()
    scaled = managed(manager, {"f:spec": {"f:replicas": {}}}, "scale")
    await telling.changed(desired, found(desired, replicas=5), scaled)
    assert len(telling.told) == told
    assert telling.counted == [("Deployment", "changed" if told else "scaled")]


async def test_one_child_is_told_of_once_in_a_while(telling: Telling) -> None:
    desired = wanted()
    for _ in range(4):
        await telling.changed(desired, found(desired, replicas=5))
    assert len(telling.told) == 1
    assert len(telling.counted) == 4
    telling.now += QUIET_SECONDS
    await telling.changed(desired, found(desired, replicas=5))
    assert len(telling.told) == 2
    assert "(and 3 times since the last report)" in telling.told[1]


async def test_a_deleted_child_is_told_once_it_is_made_again(telling: Telling) -> None:
    desired = wanted()
    await telling.missing(desired)
    assert telling.told == [], "it was never there"
    telling.drifts.gone(DEPLOYMENTS, found(desired))
    await telling.missing(desired)
    assert telling.told == [
        "Deployment orders-production was deleted by another client and has been recreated"
    ]
    await telling.missing(desired)
    assert telling.counted == [("Deployment", "deleted")]


async def test_what_the_operator_deletes_itself_is_no_drift(telling: Telling) -> None:
    desired = wanted()
    telling.drifts.deleting("7")
    telling.drifts.gone(DEPLOYMENTS, found(desired, uid="7"))
    await telling.missing(desired)
    assert telling.told == []


@pytest.mark.parametrize(("owner", "later"), [("another project of the name", 0.0), ("1", 61.0)])
async def test_a_loss_of_another_owner_or_of_long_ago_is_no_drift(
    telling: Telling, owner: str, later: float
) -> None:
    telling.drifts.gone(DEPLOYMENTS, found(wanted()))
    telling.now += later
    await telling.missing(wanted(owner=owner))
    assert telling.told == []


def test_what_went_long_ago_is_not_remembered(telling: Telling) -> None:
    for number in range(100):
        gone = found(wanted(), uid=str(number))
        telling.drifts.gone(
            DEPLOYMENTS, {**gone, "metadata": {**gone["metadata"], "name": f"orders-{number}"}}
        )
        telling.now += 2.0
    assert len(telling.drifts._owners_of_deleted) == 29, "those of the last minute"


def test_only_the_fields_that_differ_are_named() -> None:
    desired = {"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 81}], "selector": {"a": "1"}}}
    actual = {"spec": {"ports": [{"port": 80, "name": "web"}], "selector": {"a": "1", "b": "2"}}}
    assert [format_path(path) for path in differing(desired, actual)] == [
        "spec.ports[80].name",
        "spec.ports[81]",
    ]
    assert list(differing(desired, desired)) == []
