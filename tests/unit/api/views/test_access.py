"""Who set which fields, from managed fields; and what Events say."""

from __future__ import annotations

from typing import Any

from tieline_api.views import access

PROJECT: dict[str, Any] = {
    "apiVersion": "tieline.dev/v1alpha1",
    "kind": "Project",
    "metadata": {
        "name": "orders",
        "namespace": "acme",
        "uid": "1",
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "managedFields": [
            {
                "manager": "argocd-controller", "operation": "Apply", "time": "2026-11-20T10:00:00Z",
                "fieldsV1": {
                    "f:spec": {
                        "f:name": {},
                        "f:environments": {
                            'k:{"name":"production"}': {".": {}, "f:name": {}, "f:suspended": {}}
                        },
                        "f:tags": {'v:"blue"': {}},
                    }
                },
            },
            {
                "manager": "tieline-api", "operation": "Apply", "time": "2026-11-21T10:00:00Z",
                "fieldsV1": {"f:spec": {"f:settings": {}}},
            },
            {"manager": "tieline-operator", "operation": "Apply", "fieldsV1": {"f:spec": {"f:x": {}}}},
            {
                "manager": "tieline-operator", "operation": "Apply", "subresource": "status",
                "fieldsV1": {"f:status": {}},
            },
        ],
    },
    "spec": {"name": "Order sync"},
}  # fmt: skip


def test_managers_are_named_with_the_fields_that_they_hold() -> None:
    git, rest = access.changes(PROJECT)
    assert (git.manager, git.external, git.name) == ("argocd-controller", True, "Order sync")
    assert git.fields == [
        "spec.name",
        "spec.environments[name=production].name",
        "spec.environments[name=production].suspended",
        'spec.tags["blue"]',
    ]
    assert (rest.manager, rest.external, rest.fields) == ("tieline-api", False, ["spec.settings"])


def test_the_newest_come_first_and_no_more_than_asked_for() -> None:
    found = [*access.changes(PROJECT)]
    assert [one.manager for one in access.newest(found, 1)] == ["tieline-api"]
    assert [one.manager for one in access.newest(found, 9)] == ["tieline-api", "argocd-controller"]


def test_an_object_with_very_many_fields_names_some_of_them() -> None:
    many = {f"f:{number}": {} for number in range(500)}
    obj = {**PROJECT, "metadata": {**PROJECT["metadata"], "managedFields": [
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": many}}
    ]}}  # fmt: skip
    (change,) = access.changes(obj)
    assert (len(change.fields), change.external) == (access.MOST_FIELDS, True)


def test_an_event_names_what_it_is_about() -> None:
    about = {"apiVersion": "tieline.dev/v1alpha1", "kind": "Project", "name": "orders", "uid": "1"}
    event = {
        "regarding": about, "reason": "ImageMissing", "note": "There is no such image", "type": "Warning",
        "reportingController": "tieline-operator", "eventTime": "2026-11-21T10:00:00.123456Z",
        "metadata": {"creationTimestamp": "2026-11-21T10:00:00Z"},
    }  # fmt: skip
    found = access.event(event, PROJECT)
    assert (found.name, found.reason, found.message) == (
        "Order sync",
        "ImageMissing",
        "There is no such image",
    )
    assert (found.warning, found.at) == (True, "2026-11-21T10:00:00Z")
    gone = access.event(event, None)
    assert (gone.id, gone.name) == (None, "orders")
