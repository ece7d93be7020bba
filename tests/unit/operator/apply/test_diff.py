"""Differences: too many and the operator writes for ever, too few and drift stays."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_operator.apply.diff import APPLIED_ANNOTATION, contained, same_quantity, stamped

SAME = [
    ("defaults that the API server added", {"a": 1}, {"a": 1, "b": 2}),
    ("nested defaults", {"spec": {"strategy": {"type": "X"}}}, {"spec": {"strategy": {"type": "X", "y": 1}}}),
    ("what is empty was dropped", {"a": {}, "b": [], "c": "", "d": None}, {}),
    (
        "a quantity in another notation",
        {"resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}}},
        {"resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}},
    ),
    (
        "an injected variable and another order",
        {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"env": [{"name": "B", "value": "2"}, {"name": "X"}, {"name": "A", "value": "1"}]},
    ),
    (
        "a sidecar that somebody injects",
        {"containers": [{"name": "runtime"}]},
        {"containers": [{"name": "proxy"}, {"name": "runtime", "terminationMessagePath": "/x"}]},
    ),
    (
        "node ports on a service's port",
        {"spec": {"ports": [{"port": 80, "targetPort": "http"}]}},
        {"spec": {"ports": [{"port": 80, "targetPort": "http", "nodePort": 3}]}},
    ),
]
OTHER = [
    ("a changed value", {"a": 1}, {"a": 2}),
    ("a missing value", {"a": 1}, {}),
    ("false where true was asked for", {"a": True}, {"a": False}),
    ("a missing item", {"env": [{"name": "A"}]}, {"env": [{"name": "B"}]}),
    ("a changed item", {"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}]}),
    ("an extra item in a list that is one value", {"drop": ["ALL"]}, {"drop": ["ALL", "X"]}),
    ("another quantity", {"limits": {"memory": "1G"}}, {"limits": {"memory": "1Gi"}}),
    ("another kind of value", {"a": {"b": 1}}, {"a": [1]}),
    ("no object at all", {"a": 1}, None),
]


@pytest.mark.parametrize(("desired", "actual"), [c[1:] for c in SAME], ids=[c[0] for c in SAME])
def test_this_is_no_difference(desired: Any, actual: Any) -> None:
    assert contained(desired, actual)


@pytest.mark.parametrize(("desired", "actual"), [c[1:] for c in OTHER], ids=[c[0] for c in OTHER])
def test_this_is_a_difference(desired: Any, actual: Any) -> None:
    assert not contained(desired, actual)


def test_a_field_that_is_no_longer_asked_for_is_found_by_the_stamp() -> None:
    before = stamped({"metadata": {"name": "x"}, "spec": {"a": 1, "b": 2}})
    after = stamped({"metadata": {"name": "x"}, "spec": {"a": 1}})
    assert not contained(after, before)
    assert contained(before, before)
    assert APPLIED_ANNOTATION in after["metadata"]["annotations"]


@pytest.mark.parametrize(("one", "other"), [("1", 1), ("1.5Gi", "1536Mi"), ("2k", "2000"), ("100m", "0.1")])
def test_quantities_are_compared_by_amount(one: Any, other: Any) -> None:
    assert same_quantity(one, other)
