"""Connectors that are deleted, and imports of which nothing comes: nothing of them stays."""

from __future__ import annotations

import json

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.resources.test_connectors import import_into, shop
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


def left(kubectl: Kubectl, namespace: str, kind: str) -> list[str]:
    found = json.loads(kubectl("get", kind, "-o", "json", namespace=namespace).stdout)["items"]
    return [one["metadata"]["name"] for one in found if one["metadata"]["name"] != "kube-root-ca.crt"]


def test_a_deleted_connector_takes_its_versions_and_their_results_with_it(
    neighbour: Client, kubectl: Kubectl, other_org: Organisation
) -> None:
    identifier = new_id()
    assert import_into(neighbour, identifier, shop(), "one").status == 201
    assert (
        import_into(neighbour, identifier, shop(info={"title": "Two", "version": "2"}), "two").status == 201
    )
    assert len(left(kubectl, other_org.namespace, "connectorversions")) == 2
    assert neighbour("DELETE", f"/connectors/{identifier}").status == 204
    assert neighbour("GET", f"/connectors/{identifier}").status == 404
    for kind in ("connectors", "connectorversions", "configmaps"):
        eventually(f"no {kind}", lambda kind=kind: not left(kubectl, other_org.namespace, kind))


def test_an_import_whose_result_finds_no_room_leaves_no_version_without_one(
    neighbour: Client, kubectl: Kubectl, other_org: Organisation
) -> None:
    # The namespace's own ConfigMap is there already.
    kubectl("create", "quota", "full", "--hard=count/configmaps=1", namespace=other_org.namespace)
    try:
        eventually("the quota counts", lambda: _used(kubectl, other_org.namespace) == "1")
        answer = import_into(neighbour, new_id(), shop(), "one")
        assert answer.status >= 400, answer.raw
        assert "quota" in answer.json["message"], answer.raw
        assert left(kubectl, other_org.namespace, "connectorversions") == []
    finally:
        kubectl("delete", "quota", "full", namespace=other_org.namespace)


def _used(kubectl: Kubectl, namespace: str) -> str:
    quota = json.loads(kubectl("get", "quota", "full", "-o", "json", namespace=namespace).stdout)
    used: str = quota["status"]["used"]["count/configmaps"]
    return used
