"""Two environments with one address, and two organisations' projects with one id: who was first keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.operator.objects import NAMESPACE, NOW, project
from tests.unit.operator.project_fixtures import change, reconciling, running
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop
from tieline_core.identity.ids import ID_LABEL, environment_id, format_time
from tieline_core.kubernetes import Change
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.plan import Key
from tieline_operator.cache.event_mapping import keys_to_enqueue
from tieline_operator.config import Config
from tieline_operator.workload.exposure import Exposure, ExposureMode, Gateway

URL = "https://{namespace}-{project}-{environment}.hooks.example"
HOST = "acme-a-b-c.hooks.example"
INGRESS = CONFIG.model_copy(
    update={"public_url_template": URL, "exposure": Exposure(mode=ExposureMode.INGRESS)}
)
ROUTE = CONFIG.model_copy(
    update={
        "public_url_template": "https://hooks.example/{namespace}-{project}-{environment}",
        "exposure": Exposure(mode=ExposureMode.HTTP_ROUTE, gateway=Gateway("infra", "edge")),
    }
)
ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def named(name: str, environment: str, *, age: float = 600, namespace: str = NAMESPACE) -> dict[str, Any]:
    made = project(name, environments=[{"name": environment, "version": "latest"}])
    made["metadata"] |= {
        "creationTimestamp": format_time(NOW.replace(year=2026 - int(age > 600))),
        "namespace": namespace,
        "uid": f"{namespace}/{name}",
    }
    return made


def ingress_objects(there: ReconcileLoop) -> list[str]:
    """The projects that something leads to from outside."""
    return [
        obj["metadata"]["ownerReferences"][0]["name"]
        for resource in (r.INGRESSES, r.HTTP_ROUTES)
        for obj in there.cluster[resource].list()
    ]


@pytest.mark.parametrize("config", [INGRESS, ROUTE], ids=["ingress", "httproute"])
async def test_the_environment_that_was_first_keeps_an_address_and_the_other_is_reported(
    config: Config,
) -> None:
    there = reconciling(named("a-b", "c"), config=config)
    await there.until_quiet()
    # It is older as a project, and its new environment comes later.
    there.cluster.put(r.PROJECTS, named("a", "b-c", age=900))
    await there.until_quiet()
    assert ingress_objects(there) == ["a-b"]
    status, reason, message = there.ready(r.PROJECTS, "a")
    assert (status, reason) == ("False", "HostTaken")
    assert 'environment "c" of Project "a-b"' in message
    assert "publicUrl" not in there.environment("b-c", "a")
    assert there.ready(r.PROJECTS, "a-b")[1] != "HostTaken"
    assert [
        obj["metadata"]["name"]
        for obj in there.cluster[r.DEPLOYMENTS].list()
        if "a-b-c" in obj["metadata"]["name"]
    ]
    await there.once(r.PROJECTS, "a")
    assert there.requeue_after == 60

    there.cluster.remove(r.PROJECTS, "a-b")
    await there.until_quiet()
    assert "a" in ingress_objects(there)
    assert there.ready(r.PROJECTS, "a")[1] == "Starting"


async def test_of_two_that_came_at_once_one_yields() -> None:
    there = reconciling(named("a-b", "c"), named("a", "b-c", age=900), config=INGRESS)
    for name in ("a-b", "a"):
        stored = there.cluster.edited(r.PROJECTS, name)
        environment = stored["spec"]["environments"][0]["name"]
        moments = dict.fromkeys(("createdAt", "updatedAt"), format_time(NOW))
        item = {"name": environment, "id": ID, "status": "running", "publicUrl": f"https://{HOST}", **moments}
        stored["status"] = {"environments": [item]}
    await there.until_quiet()
    assert ingress_objects(there) == ["a"], "the older project, where the environments are as old"
    assert there.ready(r.PROJECTS, "a-b")[1] == "HostTaken"


async def test_what_runs_goes_on_without_the_address() -> None:
    there = await running(config=INGRESS)
    before = there.deployment()
    rival = named("order", "sync-production")
    moments = dict.fromkeys(("createdAt", "updatedAt"), "2020-01-01T00:00:00Z")
    url = there.environment()["publicUrl"]
    item = {"name": "sync-production", "id": ID, "status": "running", "publicUrl": url, **moments}
    rival["status"] = {"environments": [item]}
    there.cluster.put(r.PROJECTS, rival)
    await there.once(r.PROJECTS, "order-sync")
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "HostTaken")
    assert there.environment()["status"] == "running"
    assert there.deployment()["spec"] == before["spec"], "no pod is restarted for it"
    assert "order-sync" not in ingress_objects(there)
    change(there, environments=[{"name": "production", "version": "latest", "suspended": True}])
    await there.once(r.PROJECTS, "order-sync")
    assert there.deployment()["spec"]["replicas"] == 0


def test_a_change_of_an_address_brings_those_with_the_same_one() -> None:
    there = reconciling(named("a-b", "c"), config=INGRESS)
    old = there.cluster.edited(r.PROJECTS, "a-b")
    old["status"] = {"environments": [{"name": "c", "id": ID, "publicUrl": f"https://{HOST}"}]}
    new = named("a", "b-c")
    told = {**new, "status": {"environments": [{"name": "b-c", "id": ID, "publicUrl": f"https://{HOST}/"}]}}
    keys = keys_to_enqueue(
        {kind: there.cluster[kind] for kind in there.cluster.objects}, r.PROJECTS, Change(old=new, new=told)
    )
    assert Key("Project", NAMESPACE, "a-b") in keys


# --- ids --------------------------------------------------------------------------------------------------


def labelled(name: str, namespace: str, *, age: float) -> dict[str, Any]:
    made = named(name, "production", namespace=namespace, age=age)
    made["metadata"]["labels"] = {ID_LABEL: ID}
    return made


async def test_an_id_of_another_organisation_is_not_taken_over() -> None:
    there = reconciling(labelled("theirs", "other", age=900), labelled("order-sync", NAMESPACE, age=1))
    await there.once(r.PROJECTS, "order-sync")
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "IdTaken")
    assert "another organisation" in message
    assert "theirs" not in message, "nothing is said about others"
    assert not there.cluster[r.DEPLOYMENTS].list(NAMESPACE)

    there.cluster.remove(r.PROJECTS, "theirs", "other")
    await there.until_quiet()
    assert there.deployment() is not None


async def test_what_runs_under_an_id_goes_on_when_another_organisation_has_it_too() -> None:
    # An organisation that was restored is younger than one that has copied its ids meanwhile.
    restored = labelled("order-sync", NAMESPACE, age=1)
    moments = dict.fromkeys(("createdAt", "updatedAt"), "2020-01-01T00:00:00Z")
    item = {"name": "production", "id": environment_id(ID, "production"), "status": "running", **moments}
    restored["status"] = {"environments": [item]}
    there = reconciling(restored, labelled("theirs", "other", age=900))
    await there.once(r.PROJECTS, "order-sync")
    await there.once(r.PROJECTS, "order-sync")
    await there.once(r.PROJECT_VERSIONS, there.cluster[r.PROJECT_VERSIONS].list()[0]["metadata"]["name"])
    await there.once(r.PROJECTS, "order-sync")
    assert there.deployment() is not None
    there.kubelet()
    await there.once(r.PROJECTS, "order-sync")
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "IdTaken"), "and it is told"
    assert there.environment()["status"] == "running"


def test_a_project_that_goes_brings_those_of_others_with_its_id() -> None:
    first, second = labelled("theirs", "other", age=900), labelled("order-sync", NAMESPACE, age=1)
    there = reconciling(second)
    keys = keys_to_enqueue(
        {kind: there.cluster[kind] for kind in there.cluster.objects}, r.PROJECTS, Change(old=first, new=None)
    )
    assert Key("Project", NAMESPACE, "order-sync") in keys
