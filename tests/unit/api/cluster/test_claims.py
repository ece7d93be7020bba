"""What REST and pods get where two objects claim one id or one name: what the first claim has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness.processes import engine_away
from tests.unit.kubernetes.fake_api_server import FakeApiServer
from tieline_api.app import make_dependencies
from tieline_api.auth.end_user_reach import EndUserReach
from tieline_api.auth.end_users import EndUserScope
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.organisations import Organisation
from tieline_api.pod_api.configuration import configuration
from tieline_core.identity.ids import ID_LABEL, ORGANISATION_LABEL, environment_id, static_activation_id
from tieline_core.kubernetes import Informer, Kube

ID, OTHER_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01M80JXM4R3ZHNXPA4H0RGWEFG"
ACME, OTHER = "01M80JXM4R3ZHNXPA4H0RGWEFA", "01M80JXM4R3ZHNXPA4H0RGWEFB"


def stored(
    name: str, namespace: str, *, year: int, label: str = "", status: Any = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Any",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": f"{year}-01-01T00:00:00Z",
            "labels": {ID_LABEL: label} if label else {},
        },
        "spec": {"name": name, **spec},
        "status": status or {},
    }


@pytest.fixture
async def cluster() -> ClusterCache:
    cache = ClusterCache(cast(Kube, None))
    cache._synced = True
    for name, organisation, year in (("acme", ACME, 2025), ("other", OTHER, 2020)):
        metadata = {
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": f"{year}-01-01T00:00:00Z",
            "labels": {ORGANISATION_LABEL: organisation},
        }
        cache.namespaces.observe({"metadata": metadata})
    return cache


def put(cache: Informer, *objects: dict[str, Any]) -> None:
    for obj in objects:
        cache.observe(obj)


def organisations(found: list[Organisation]) -> list[str]:
    return [one.namespace for one in found]


@pytest.mark.parametrize(
    "status", [{"id": OTHER_ID}, {"conditions": [{"type": "Ready"}]}], ids=["its own id", "refused"]
)
async def test_an_id_leads_to_the_object_that_has_it(cluster: ClusterCache, status: dict[str, Any]) -> None:
    put(
        cluster.projects,
        stored("orders", "acme", year=2025, status={"id": ID}),
        stored("older", "acme", year=2020, label=ID, status=status),
        stored("oldest", "other", year=2019, label=ID, status=status),
    )
    found = cluster.find(cluster.projects, "acme", ID)
    assert found is not None
    assert found["metadata"]["name"] == "orders"
    assert organisations(cluster.organisations_of_project(ID))[0] == "acme"


async def test_state_goes_to_the_organisation_that_had_the_project_first(cluster: ClusterCache) -> None:
    # Both run under the id: one of them was restored beside the other.
    put(
        cluster.projects,
        stored("orders", "acme", year=2021, status={"id": ID}),
        stored("copy", "other", year=2025, status={"id": ID}),
    )
    activation = static_activation_id(environment_id(ID, "production"))
    assert organisations(cluster.organisations_of_activation(activation)) == ["acme", "other"]


@pytest.mark.parametrize("first", ["orders", "older"], ids=["read first", "read last"])
async def test_an_activation_is_of_the_project_that_has_the_id(cluster: ClusterCache, first: str) -> None:
    refused = {"conditions": [{"type": "Ready", "status": "False", "reason": "IdTaken"}]}
    both = {
        "orders": stored("orders", "acme", year=2025, status={"id": ID}),
        "older": stored("older", "acme", year=2020, label=ID, status=refused),
    }
    put(cluster.projects, both.pop(first), *both.values())
    place = cluster.activation_place("acme", static_activation_id(environment_id(ID, "production")))
    assert place is not None
    assert place.project["metadata"]["name"] == "orders"


@pytest.mark.parametrize("ids", [(ID, OTHER_ID), (OTHER_ID, ID)], ids=["first id", "last id"])
async def test_all_look_ups_find_one_user_of_an_external_id(
    cluster: ClusterCache, ids: tuple[str, str]
) -> None:
    # Restored within one second: whatever ids they have, the operator decides by their uids.
    for name, identifier in zip(("ann", "zoe"), ids, strict=True):
        user = stored(name, "acme", year=2025, status={"id": identifier}, externalId="42")
        of_user = {
            "endUserRef": {"name": name},
            "projectRef": {"name": "orders"},
            "environment": "production",
        }
        put(cluster.users, user)
        put(cluster.activations, stored(f"for-{name}", "acme", year=2025, **of_user))
    scope = EndUserScope(external_id="42")
    found = [
        cluster.user("acme", "42"),
        cluster.external_user("acme", "42"),
        EndUserReach(cluster, "acme", scope).user,
        cluster.user_activation("acme", "orders", "production", "42"),
    ]
    assert [one and one["metadata"]["name"] for one in found] == ["ann", "ann", "ann", "for-ann"]


async def test_an_organisation_stays_with_the_namespace_that_is_recorded() -> None:
    cache = ClusterCache(cast(Kube, None), home="tieline-system")
    cache._synced = True
    assert cache.organisation_records is not None

    def label(name: str, organisation: str, year: int) -> None:
        metadata = {
            "name": name,
            "uid": name,
            "resourceVersion": str(year),
            "creationTimestamp": f"{year}-01-01T00:00:00Z",
            "labels": {ORGANISATION_LABEL: organisation},
        }
        cache.namespaces.observe({"metadata": metadata})

    label("acme", ACME, 2025)
    label("older", ACME, 2020)
    assert cache.namespace_of(ACME) == "older", "nothing is recorded yet"
    metadata = {
        "name": "tieline-organisations",
        "namespace": "tieline-system",
        "uid": "1",
        "resourceVersion": "1",
    }
    cache.organisation_records.observe({"metadata": metadata, "data": {ACME: "acme"}})
    assert cache.namespace_of(ACME) == "acme"
    assert cache.organisation_of("older") is None
    # Another label makes no other organisation of it.
    label("acme", OTHER, 2026)
    assert cache.organisation(OTHER) is None
    assert cache.organisation(ACME) is None


async def test_records_are_read_where_the_operator_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "namespace"
    own.write_text("tieline-system")
    monkeypatch.setattr("tieline_api.console_settings._POD_NAMESPACE", own)
    settings = engine_away.api_settings(
        traces_file=str(tmp_path / "traces.db"), console_keys_namespace="acme"
    )
    async with FakeApiServer.running() as server, server.client() as kube:
        platform = make_dependencies(kube, settings)
        await platform.outgoing.close()
        records = platform.cluster.organisation_records
        assert records is not None
        assert records._namespace == "tieline-system", "those who keep sessions elsewhere own no records"


async def test_code_gets_the_template_that_has_the_name(cluster: ClusterCache) -> None:
    project = stored("orders", "acme", year=2025, status={"id": ID})
    of_project = {"projectRef": {"name": "orders"}, "environment": "production", "dynamic": True}
    template = stored("shop-template", "acme", year=2025, status={"id": ID, "name": "shop"}, **of_project)
    renamed = stored("older", "acme", year=2020, status={"id": OTHER_ID}, **of_project)
    for one in (template, renamed):
        one["spec"]["name"] = "shop"
    renamed["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "NameTaken"}]
    put(cluster.templates, template, renamed)
    organisation = Organisation(id=ACME, namespace="acme")
    found = configuration(cluster, organisation, project, "production", fits=lambda _schema, _values: True)
    assert found["templates"]["shop"]["id"] == ID
