"""Which granted rights no request needed."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.harness.cluster.audit_log import Request, Right
from tests.harness.cluster.granted_rights import Grant, grants, unused

LIST = Right("", "configmaps", "list")


def request(name: str) -> Request:
    return Request(
        at=datetime(2026, 11, 20, tzinfo=UTC),
        user="api",
        pod="",
        right=LIST,
        namespace="tieline-system",
        name=name,
        allowed=True,
        created=False,
    )


def test_a_grant_by_name_needs_no_grant_for_all() -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    granted = grants([rule, {**rule, "resourceNames": ["tieline-organisations"]}])
    everything, by_name = Grant(LIST), Grant(LIST, frozenset({"tieline-organisations"}))
    assert granted == {everything, by_name}
    assert unused(granted, [request("tieline-organisations")]) == {everything}
    assert unused(granted, [request("another")]) == {by_name}
    assert unused(granted, [request("another"), request("tieline-organisations")]) == set()
