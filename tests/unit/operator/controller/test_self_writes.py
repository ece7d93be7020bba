"""Which news the operator may pass over because it has caused them itself."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_core.kubernetes import Resource
from tieline_core.kubernetes.resources import PROJECTS, SYSTEMS
from tieline_operator.controller.self_writes import SelfWriteFilter

Object = dict[str, Any]


def system(version: str, **metadata: Any) -> Object:
    return {
        "metadata": {"name": "shop", "uid": "u", "generation": 1, "resourceVersion": version, **metadata},
        "spec": {"name": "Shop"},
    }


def passed_over(planned: Object, written: Object, resource: Resource = SYSTEMS) -> bool:
    writes = SelfWriteFilter()
    writes.note(resource, planned, written)
    return writes.holds("u", written["metadata"]["resourceVersion"])


def test_the_news_of_a_status_and_an_id_that_were_just_written_are_passed_over() -> None:
    written = {**system("2", labels={"tieline.dev/id": "01"}), "status": {"conditions": []}}

    assert passed_over(system("1"), written)


@pytest.mark.parametrize(
    "met",
    [
        {"generation": 2},
        {"labels": {"team": "a"}},
        {"annotations": {"note": "b"}},
        {"finalizers": ["example.com/keep"]},
        {"ownerReferences": [{"uid": "o"}]},
        {"deletionTimestamp": "2026-11-21T18:00:00Z"},
    ],
    ids=lambda met: next(iter(met)),
)
def test_what_somebody_else_changed_before_the_write_is_looked_at(met: Object) -> None:
    assert not passed_over(system("1"), system("3", **met))


def test_what_somebody_else_changes_after_the_write_is_looked_at() -> None:
    writes = SelfWriteFilter()
    writes.note(SYSTEMS, system("1"), system("2"))

    assert not writes.holds("u", "3")


def test_a_state_that_is_told_again_is_looked_at() -> None:
    writes = SelfWriteFilter()
    writes.note(SYSTEMS, system("1"), system("2"))

    assert writes.holds("u", "2")
    assert not writes.holds("u", "2")


def test_a_project_goes_on_from_its_own_status_so_it_is_always_looked_at() -> None:
    assert not passed_over(system("1"), system("2"), resource=PROJECTS)
