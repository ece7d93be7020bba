"""Selectors mean the same here as on the API server."""

from typing import Any

import pytest

from tieline_core.kubernetes.selectors import selects

OBJECT: dict[str, Any] = {
    "metadata": {"name": "one", "labels": {"app.kubernetes.io/name": "shop", "tier": "back", "empty": ""}},
    "type": "tieline.dev/credential",
    "spec": {"nodeName": "n1", "unschedulable": True},
}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, True),
        ("", True),
        ("tier", True),
        ("tier=back", True),
        ("tier==back", True),
        ("tier = back", True),
        ("tier=front", False),
        ("tier!=front", True),
        ("tier!=back", False),
        ("absent!=anything", True),
        ("absent", False),
        ("!absent", True),
        ("!tier", False),
        ("empty=", True),
        ("tier=", False),
        ("tier in (front, back)", True),
        ("tier in (front)", False),
        ("tier notin (front)", True),
        ("absent notin (front)", True),
        ("tier in (front,back),app.kubernetes.io/name=shop", True),
        ("tier in (front,back),app.kubernetes.io/name=bar", False),
    ],
)
def test_a_label_selector_selects_as_the_server_does(selector: str | None, selected: bool) -> None:
    assert selects(OBJECT, label_selector=selector) is selected


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, True),
        ("type=tieline.dev/credential", True),
        ("type=Opaque", False),
        ("type!=Opaque", True),
        ("metadata.name=one,spec.nodeName=n1", True),
        ("metadata.name=one,spec.nodeName=n2", False),
        ("status.phase=", True),
        ("status.phase=Running", False),
        ("spec.unschedulable=true", True),
    ],
)
def test_a_field_selector_selects_as_the_server_does(selector: str | None, selected: bool) -> None:
    assert selects(OBJECT, field_selector=selector) is selected


def test_an_object_without_labels_is_not_selected_by_them() -> None:
    assert not selects({"metadata": {"name": "one"}}, label_selector="tier")
