"""Objects in a namespace that is no organisation say so, and work once it is one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.operator.objects import (
    connection,
    end_user,
    namespace,
    project,
    secret,
    system,
    template,
)
from tests.unit.operator.project_fixtures import reconciling
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r


@pytest.mark.parametrize(
    ("resource", "obj"), [(r.SYSTEMS, system()), (r.END_USERS, end_user())], ids=["System", "EndUser"]
)
async def test_an_object_says_that_its_namespace_is_no_organisation(
    resource: Resource, obj: dict[str, Any]
) -> None:
    there = reconciling(organisation=False)
    there.cluster.put(resource, obj)
    await there.until_quiet()
    name = obj["metadata"]["name"]
    status, reason, message = there.ready(resource, name)
    assert (status, reason) == ("False", "OrganisationMissing")
    assert "kubectl label --overwrite namespace acme tieline.dev/organisation=" in message
    await there.changed(r.NAMESPACES, namespace())
    assert there.ready(resource, name)[0] == "True"


async def test_an_object_says_that_an_older_namespace_is_the_organisation() -> None:
    there = reconciling()
    there.cluster.put(r.NAMESPACES, namespace(age=100))
    there.cluster.put(r.NAMESPACES, namespace("first", age=200))
    there.cluster.put(r.SYSTEMS, system())
    await there.until_quiet()
    status, reason, message = there.ready(r.SYSTEMS, system()["metadata"]["name"])
    assert (status, reason) == ("False", "OrganisationTaken")
    assert "the namespace first is" in message


async def test_what_is_wrong_with_the_object_itself_is_told_first() -> None:
    there = reconciling(organisation=False)
    there.cluster.put(r.CONNECTIONS, connection())
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[:2] == ("False", "SystemNotFound")


async def test_what_runs_goes_on_when_the_namespace_loses_its_label() -> None:
    there = reconciling(project())
    there.cluster.put(r.SYSTEMS, system())
    there.cluster.put(r.SECRETS, secret())
    there.cluster.put(r.CONNECTIONS, connection())
    there.cluster.put(r.CONNECTION_TEMPLATES, template(connectionRef={"name": "login"}))
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")
    await there.changed(r.NAMESPACES, namespace(organisation=None))
    assert there.ready(r.CONNECTION_TEMPLATES, "shop-template")[:2] == ("False", "OrganisationMissing")
    assert there.deployment() is not None
    assert there.environment()["status"] == "running"
    await there.changed(r.NAMESPACES, namespace())
    assert there.ready(r.CONNECTION_TEMPLATES, "shop-template")[0] == "True"
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")
