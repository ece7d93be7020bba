"""A label tieline.dev/id that is no ULID is told, and neither used nor overwritten."""

from __future__ import annotations

import pytest

from tests.unit.operator.objects import connection, project, secret, system, template
from tests.unit.operator.project_fixtures import reconciling
from tieline_core.identity.ids import ID_LABEL, object_id
from tieline_core.kubernetes import resources as r


@pytest.mark.parametrize(
    "label", ["order-sync", "", "01ARZ3NDEKTSV4RRFFQ69G5FA", "81ARZ3NDEKTSV4RRFFQ69G5FAV"]
)
async def test_a_label_that_is_no_ulid_is_told_and_left(label: str) -> None:
    unlabelled, labelled = project(), project()
    labelled["metadata"]["labels"] = {ID_LABEL: label}
    there = reconciling(labelled)
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "IdInvalid")
    assert object_id(unlabelled) in message
    stored = there.cluster[r.PROJECTS].get("acme", "order-sync")
    assert stored is not None
    assert stored["metadata"]["labels"][ID_LABEL] == label
    assert there.environment()["status"] == "running", "it works, under the id that it has"
    assert ("Warning", "IdInvalid") in [(told["type"], told["reason"]) for told in there.cluster.posted]


async def test_a_ulid_in_lower_case_is_one() -> None:
    labelled = system()
    labelled["metadata"]["labels"] = {ID_LABEL: "01arz3ndektsv4rrffq69g5fav"}
    there = reconciling(labelled)
    await there.until_quiet()
    assert there.ready(r.SYSTEMS, labelled["metadata"]["name"])[0] == "True"


async def test_what_refers_to_a_connection_with_such_a_label_works() -> None:
    labelled = connection()
    labelled["metadata"]["labels"] = {ID_LABEL: "login"}
    there = reconciling(project())
    there.cluster.put(r.SYSTEMS, system())
    there.cluster.put(r.SECRETS, secret())
    there.cluster.put(r.CONNECTIONS, labelled)
    there.cluster.put(r.CONNECTION_TEMPLATES, template(connectionRef={"name": "login"}))
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[:2] == ("False", "IdInvalid")
    assert there.ready(r.CONNECTION_TEMPLATES, "shop-template")[0] == "True"
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")
