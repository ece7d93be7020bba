"""Hostile schemas that kubectl has stored: an operator that starts works on, and tells their projects."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.inputs.hostile_schemas import SLOW_VALUES, doubling, doubling_below, slow
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import SYSTEM, NamespacedKubectl, ready
from tests.integration.operator.running_operator import RunningOperator

pytestmark = pytest.mark.cluster

HOSTILE = {
    "doubling": doubling(20),
    "doubling-below": doubling_below("items", 20),
    "type": {"type": "objekt"},
}
# What Python's and orjson's parsers refuse to read, and what JSON cannot be written of again.
DEEP = (600, 1_500, 9_000)
FINE = {"type": "object", "properties": {"items": {"type": "array", "uniqueItems": True}}}


@pytest.fixture
def mallory(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture
def globex(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    with an_organisation(kubectl) as made:
        yield made


def test_an_operator_starts_and_reconciles_others_with_hostile_schemas_stored(
    kubectl: Kubectl,
    mallory: Organisation,
    globex: Organisation,
    operator_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    bad, good = (NamespacedKubectl(kubectl=kubectl, namespace=one.namespace) for one in (mallory, globex))
    for name, schema in HOSTILE.items():
        bad.apply("Project", name, {"name": name, "dynamicVariablesSchema": schema})
        bad.apply("Activation", name, activation(name, {"items": [1]}))
    bad.apply("Project", "slow", {"name": "slow", "dynamicVariablesSchema": slow()})
    bad.apply("Activation", "slow", activation("slow", SLOW_VALUES))
    good.apply("Project", "fine", {"name": "fine", "dynamicVariablesSchema": FINE})
    good.apply("Activation", "fine", activation("fine", {"items": ["a"]}))

    operator = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=(mallory.namespace, globex.namespace),
        log=tmp_path / "log",
    )
    began = time.perf_counter()
    with operator:
        good.until_ready("activation", "fine", "True", "Active")
        print(f"started and reconciled others after {time.perf_counter() - began:.1f} s")
        good.until_ready("project", "fine", "True", "Draft")
        for name in HOSTILE:
            found = bad.until_ready("project", name, "False", "SchemaInvalid")
            message = ready(found)["message"]
            assert "correct spec.dynamicVariablesSchema" in message, name
        bad.until_ready("activation", "slow", "False", "VariablesTooCostly")
        bad.until_ready("activation", "doubling", "False", "SchemaInvalid")
        # What came last is served as what was there.
        good.apply("System", "late", SYSTEM)
        good.until_ready("system", "late", "True", "Valid")
        assert operator.healthy()


def activation(project: str, variables: Any) -> dict[str, Any]:
    """An environment's own activation with variables."""
    return {"projectRef": {"name": project}, "environment": "production", "variables": variables}


def test_an_operator_starts_and_reconciles_others_with_objects_that_no_parser_reads(
    kubectl: Kubectl,
    mallory: Organisation,
    globex: Organisation,
    operator_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    bad, good = (NamespacedKubectl(kubectl=kubectl, namespace=one.namespace) for one in (mallory, globex))
    good.apply("Project", "fine", {"name": "fine"})
    for levels in DEEP:
        store_deep(
            bad, "projects", "Project", f"deep-{levels}", {"name": "Deep"}, "dynamicVariablesSchema", levels
        )
        target = {"projectRef": {"name": "fine"}, "environment": "production"}
        store_deep(bad, "activations", "Activation", f"deep-{levels}", target, "variables", levels)
    operator = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=(mallory.namespace, globex.namespace),
        log=tmp_path / "log",
    )
    with operator:
        good.until_ready("project", "fine", "True", "Draft")
        for levels in DEEP:
            eventually(
                "the project is told",
                lambda levels=levels: "levels deep" in message_of(bad, f"deep-{levels}"),
            )
        # It is told of changes as well.
        store_deep(
            bad, "projects", "Project", "deep-late", {"name": "Deep"}, "dynamicVariablesSchema", DEEP[-1]
        )
        good.apply("System", "late", SYSTEM)
        good.until_ready("system", "late", "True", "Valid")
        assert operator.healthy()


def store_deep(
    acting: NamespacedKubectl,
    plural: str,
    kind: str,
    name: str,
    spec: dict[str, Any],
    field: str,
    levels: int,
) -> None:
    """Creates an object with a field that nests this deep, past all parsers on this side."""
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": acting.namespace},
        "spec": {**spec, field: "DEEP"},
    }
    text = json.dumps(manifest).replace('"DEEP"', '{"not":' * levels + "{}" + "}" * levels)
    path = f"/apis/tieline.dev/v1alpha1/namespaces/{acting.namespace}/{plural}"
    acting.kubectl("create", "--raw", path, "-f", "-", stdin=text)


def message_of(acting: NamespacedKubectl, project: str) -> str:
    """What Ready says; the object itself is not read on this side."""
    path = '{.status.conditions[?(@.type=="Ready")].message}'
    return acting.run("get", "project", project, "-o", f"jsonpath={path}")
