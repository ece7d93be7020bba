"""Nobody takes an id or a name that another object has, however old the object is that claims it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.operator import objects as o
from tests.unit.operator.project_fixtures import reconciling
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop
from tests.unit.operator.reconcilers.test_references import cluster
from tieline_core.engine.trust import EngineTrust
from tieline_core.identity.ids import ID_LABEL, new_id, object_id
from tieline_core.kubernetes import Change, Resource
from tieline_core.kubernetes import resources as r
from tieline_operator.workload.exposure import Exposure, ExposureMode

OTHER = "other"
REFUSED = {
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "IdTaken",
            "message": "Another one has it",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }
    ]
}
WITH_ENGINE = CONFIG.model_copy(
    update={
        "public_url_template": "https://{environmentId}.hooks.example",
        "exposure": Exposure(mode=ExposureMode.INGRESS),
    }
)


def thief(**metadata: Any) -> dict[str, Any]:
    """A project of another organisation that is older than the one it steals from."""
    made = o.project("older", environments=[{"name": "production"}])
    made["metadata"] |= {
        "namespace": OTHER,
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "uid": "older",
        **metadata,
    }
    return made


def labelled(obj: Any, identifier: str) -> None:
    obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), ID_LABEL: identifier}


async def two_organisations(*others: dict[str, Any]) -> ReconcileLoop:
    """A project that runs with the engine, and another organisation."""
    there = reconciling(o.project(), *others, config=WITH_ENGINE, engine_signer=EngineTrust().users)
    there.cluster.put(r.NAMESPACES, o.namespace(OTHER, organisation=new_id(), age=900))
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    return there


def victim(there: ReconcileLoop) -> dict[str, Any]:
    """What the project in the first organisation has."""
    objects = there.cluster.objects
    return {
        "project": objects[r.PROJECTS][o.NAMESPACE, "order-sync"],
        **{
            resource.plural: [obj for (where, _), obj in objects[resource].items() if where == o.NAMESPACE]
            for resource in (r.ENGINE_SECRETS, r.DEPLOYMENTS, r.INGRESSES)
        },
    }


async def test_an_older_project_cannot_take_an_id_by_its_label() -> None:
    there = await two_organisations(thief())
    before = copy.deepcopy(victim(there))
    stolen = before["project"]["status"]["id"]
    assert before[r.ENGINE_SECRETS.plural], "it has credentials for the engine"
    assert before[r.INGRESSES.plural], "it has an address"
    own = there.cluster.objects[r.PROJECTS][OTHER, "older"]["status"]["id"]
    labelled(there.cluster.edited(r.PROJECTS, "older", OTHER), stolen)
    await there.until_quiet()
    assert victim(there) == before
    found = there.cluster.objects[r.PROJECTS][OTHER, "older"]
    assert object_id(found) == own
    ready = found["status"]["conditions"][0]
    assert (ready["status"], ready["reason"]) == ("False", "IdChanged")
    assert own in ready["message"]

    # The operator does not write what would make the theft last.
    there.cluster.edited(r.PROJECTS, "older", OTHER)["metadata"]["labels"] = {}
    await there.until_quiet()
    assert there.cluster.objects[r.PROJECTS][OTHER, "older"]["metadata"]["labels"] == {ID_LABEL: own}
    assert victim(there) == before


@pytest.mark.parametrize("seen", [False, True], ids=["never seen", "refused before"])
async def test_an_older_project_without_an_id_cannot_take_one(seen: bool) -> None:
    there = await two_organisations()
    before = copy.deepcopy(victim(there))
    claimant = thief()
    labelled(claimant, before["project"]["status"]["id"])
    if seen:
        claimant["status"] = copy.deepcopy(REFUSED)
    there.cluster.put(r.PROJECTS, claimant)
    await there.until_quiet()
    assert victim(there) == before
    found = there.cluster.objects[r.PROJECTS][OTHER, "older"]
    assert found["status"]["conditions"][0]["reason"] == "IdTaken"
    assert "id" not in found["status"]


async def test_what_was_refused_an_id_comes_after_what_is_new() -> None:
    # Made while no operator runs; the other one has waited for the id since it was refused another.
    waiting, new = thief(), o.project()
    identifier = new_id()
    labelled(waiting, identifier)
    labelled(new, identifier)
    waiting["status"] = copy.deepcopy(REFUSED)
    there = reconciling(new, waiting)
    there.cluster.put(r.NAMESPACES, o.namespace(OTHER, organisation=new_id(), age=900))
    await there.until_quiet()
    assert there.cluster.objects[r.PROJECTS][o.NAMESPACE, "order-sync"]["status"]["id"] == identifier
    assert "id" not in there.cluster.objects[r.PROJECTS][OTHER, "older"]["status"]


async def test_an_object_that_cannot_be_read_claims_nothing() -> None:
    there = ReconcileLoop(cluster())
    unreadable = o.end_user("older", age=9000, external="99")
    unreadable["spec"]["displayName"] = 99
    labelled(unreadable, object_id(there.cluster.objects[r.END_USERS][o.NAMESPACE, "ann"]))
    there.cluster.put(r.END_USERS, unreadable)
    await there.once(r.END_USERS, "older")
    assert there.ready(r.END_USERS, "older")[1] == "Invalid"
    await there.until_quiet()
    assert "id" not in there.cluster.objects[r.END_USERS][o.NAMESPACE, "older"]["status"]
    assert there.ready(r.END_USERS, "ann")[0] == "True"


async def test_what_cannot_be_read_keeps_its_address_and_its_name() -> None:
    there = await two_organisations()
    before = copy.deepcopy(victim(there)["project"]["status"])
    assert there.environment()["publicUrl"]
    there.cluster.edited(r.PROJECTS, "order-sync")["spec"]["name"] = 99
    await there.once(r.PROJECTS, "order-sync")
    assert there.ready(r.PROJECTS, "order-sync")[1] == "Invalid"
    after = victim(there)["project"]["status"]
    assert (after["id"], after["environments"]) == (before["id"], before["environments"])

    there = ReconcileLoop(cluster())
    await there.until_quiet()
    (first,) = there.cluster[r.CONNECTIONS].list()
    name = first["metadata"]["name"]
    there.cluster.edited(r.CONNECTIONS, name)["spec"]["credentials"] = 99
    await there.once(r.CONNECTIONS, name)
    assert there.cluster.objects[r.CONNECTIONS][o.NAMESPACE, name]["status"]["name"] == first["spec"]["name"]


async def test_a_status_that_cannot_be_read_is_computed_anew() -> None:
    there = await two_organisations()
    identifier = victim(there)["project"]["status"]["id"]
    there.cluster.edited(r.PROJECTS, "order-sync")["status"]["environments"] = [{"name": 99}]
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[1] != "Invalid"
    assert there.environment()["id"]
    assert victim(there)["project"]["status"]["id"] == identifier


async def test_a_project_made_again_gets_its_id_again() -> None:
    there = await two_organisations()
    deleted = victim(there)["project"]
    identifier = deleted["status"]["id"]
    waiting = thief()
    labelled(waiting, identifier)
    there.cluster.put(r.PROJECTS, waiting)
    await there.until_quiet()
    there.cluster.remove(r.PROJECTS, "order-sync")
    there.released.changed(Change(old=deleted, new=None))
    await there.until_quiet()
    assert "id" not in there.cluster.objects[r.PROJECTS][OTHER, "older"]["status"]
    again = o.project()
    again["metadata"] |= {"uid": "again", "creationTimestamp": "2026-11-21T12:00:00Z"}
    labelled(again, identifier)
    there.cluster.put(r.PROJECTS, again)
    await there.until_quiet()
    assert victim(there)["project"]["status"]["id"] == identifier
    assert there.ready(r.PROJECTS, "order-sync")[1] != "IdTaken"


async def test_an_id_cannot_be_taken_during_a_deletion() -> None:
    there = await two_organisations()
    identifier = victim(there)["project"]["status"]["id"]
    waiting = thief()
    labelled(waiting, identifier)
    there.cluster.put(r.PROJECTS, waiting)
    await there.until_quiet()
    # A deletion in the foreground, or a finalizer: it is there until its children are gone.
    leaving = there.cluster.edited(r.PROJECTS, "order-sync")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    await there.until_quiet()
    assert "id" not in there.cluster.objects[r.PROJECTS][OTHER, "older"]["status"]


async def test_a_connector_does_not_hide_that_an_id_is_taken() -> None:
    there = ReconcileLoop(cluster())
    await there.until_quiet()
    (first,) = there.cluster[r.SYSTEMS].list()
    claimant = o.system("second", connectorRef={"name": "missing"})
    labelled(claimant, object_id(first))
    claimant["metadata"]["creationTimestamp"] = "2026-11-21T12:00:00Z"
    there.cluster.put(r.SYSTEMS, claimant)
    await there.until_quiet()
    assert there.ready(r.SYSTEMS, "second")[:2] == ("False", "IdTaken")
    assert "id" not in there.cluster.objects[r.SYSTEMS][o.NAMESPACE, "second"]["status"]


async def test_a_project_can_move_to_another_organisation() -> None:
    there = await two_organisations()
    deleted = victim(there)["project"]
    moved = thief()
    labelled(moved, deleted["status"]["id"])
    there.cluster.put(r.PROJECTS, moved)
    there.cluster.remove(r.PROJECTS, "order-sync")
    there.released.changed(Change(old=deleted, new=None))
    await there.until_quiet()
    assert there.cluster.objects[r.PROJECTS][OTHER, "older"]["status"]["conditions"][0]["reason"] == "IdTaken"
    there.now += timedelta(hours=1)
    await there.until_quiet()
    assert there.cluster.objects[r.PROJECTS][OTHER, "older"]["status"]["id"] == deleted["status"]["id"]


async def test_a_restored_project_keeps_the_engine_beside_one_with_its_id() -> None:
    there = await two_organisations()
    identifier = victim(there)["project"]["status"]["id"]
    before = copy.deepcopy(victim(there)[r.ENGINE_SECRETS.plural])
    copied = thief()
    copied["status"] = {"id": identifier}
    there.cluster.put(r.PROJECTS, copied)
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "IdTaken"), "it says so"
    assert victim(there)[r.ENGINE_SECRETS.plural] == before
    assert victim(there)["project"]["status"]["id"] == identifier


KINDS: list[tuple[Resource, Callable[..., dict[str, Any]], dict[str, Any]]] = [
    (r.CONNECTIONS, o.connection, {"title": "another"}),
    (r.CONNECTION_TEMPLATES, o.template, {"connectionRef": {"name": "login"}, "environment": "staging"}),
    (r.END_USERS, o.end_user, {"external": "99"}),
    (r.ACTIVATIONS, o.activation, {"endUserRef": None}),
]


@pytest.mark.parametrize(("resource", "make", "spec"), KINDS, ids=[kind.plural for kind, _, _ in KINDS])
async def test_no_kind_loses_its_id_to_an_older_object(
    resource: Resource, make: Callable[..., dict[str, Any]], spec: dict[str, Any]
) -> None:
    there = ReconcileLoop(cluster())
    (first,) = there.cluster[resource].list()
    name = first["metadata"]["name"]
    there.cluster.put(resource, make("older", age=9000, **spec))
    await there.until_quiet()
    identifier = object_id(there.cluster.objects[resource][o.NAMESPACE, name])
    before = there.ready(resource, name)
    assert before[0] == "True"
    labelled(there.cluster.edited(resource, "older"), identifier)
    await there.until_quiet()
    assert there.ready(resource, name) == before
    assert object_id(there.cluster.objects[resource][o.NAMESPACE, "older"]) != identifier


NAMED: list[tuple[Resource, Callable[..., dict[str, Any]], dict[str, Any]]] = [
    (r.CONNECTIONS, o.connection, {}),
    (r.CONNECTION_TEMPLATES, o.template, {"name": "another", "connectionRef": {"name": "login"}}),
]


@pytest.mark.parametrize(("resource", "make", "spec"), NAMED, ids=[kind.plural for kind, _, _ in NAMED])
async def test_a_name_stays_with_who_had_it_first(
    resource: Resource, make: Callable[..., dict[str, Any]], spec: dict[str, Any]
) -> None:
    there = ReconcileLoop(cluster())
    (first,) = there.cluster[resource].list()
    name = first["metadata"]["name"]
    older = make("older", age=9000)
    older["spec"].update(spec)
    there.cluster.put(resource, older)
    await there.until_quiet()
    assert there.ready(resource, "older")[0] == "True"
    renamed = there.cluster.edited(resource, "older")
    renamed["spec"]["name"] = first["spec"]["name"]
    renamed["metadata"]["generation"] += 1
    await there.until_quiet()
    assert there.ready(resource, name)[0] == "True"
    assert there.ready(resource, "older")[:2] == ("False", "NameTaken")
    assert name in there.ready(resource, "older")[2]

    there.cluster.remove(resource, name)
    await there.until_quiet()
    assert there.ready(resource, "older")[0] == "True"


async def test_an_address_does_not_follow_a_label() -> None:
    there = await two_organisations()
    address = there.environment()["publicUrl"]
    there.kubelet()
    labelled(there.cluster.edited(r.PROJECTS, "order-sync"), new_id())
    await there.until_quiet()
    assert there.environment()["publicUrl"] == address
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "IdChanged")
