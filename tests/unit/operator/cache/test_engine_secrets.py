"""What the operator keeps of the Secrets with which pods connect to the event engine: no value."""

from __future__ import annotations

from typing import Any

from tieline_core.kubernetes.resources import ENGINE_SECRETS
from tieline_operator.cache.transforms import FOREIGN_DATA, transform_of


def seen(*managers: str, key: str = "engine.creds", **content: Any) -> dict[str, Any]:
    fields = [
        {"manager": name, "operation": "Apply", "fieldsV1": {"f:data": {f"f:{key}": {}}}} for name in managers
    ]
    metadata = {"name": "x-engine", "namespace": "acme", "managedFields": fields, "labels": {"a": "b"}}
    return transform_of(ENGINE_SECRETS)({"metadata": metadata, **content})


def test_a_secret_is_kept_without_its_value() -> None:
    content = {"apiVersion": "v1", "kind": "Secret", "data": {"engine.creds": "c2VjcmV0"}}
    assert seen("tieline-operator", **content) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "x-engine", "namespace": "acme", "labels": {"a": "b"}},
        "type": "tieline.dev/engine-credentials",
    }


def test_a_value_that_somebody_else_wrote_is_noticed() -> None:
    assert seen("tieline-operator", "kubectl-edit")[FOREIGN_DATA] is True


def test_other_keys_that_somebody_adds_are_theirs() -> None:
    assert FOREIGN_DATA not in seen("kubectl-edit", key="note")
