"""An organisation's id is one namespace's: the oldest that carries it, while nothing is recorded."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import (
    NAMESPACE,
    NOW,
    ORGANISATION,
    connection,
    namespace,
    project,
    system,
)
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.kubernetes import Change
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.event_recorder import build
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.cache.event_mapping import keys_to_enqueue
from tieline_operator.cache.organisations import DuplicateOrganisationLog, duplicates
from tieline_operator.metrics import Metrics

OTHER = "01BX5ZZKBKACTAV9WEVGEMMVRZ"


def cluster(*, older: bool = True) -> FakeCluster:
    found = FakeCluster(project())
    found.put(r.NAMESPACES, namespace(age=100))
    found.put(r.NAMESPACES, namespace("first", age=200 if older else 50))
    return found


async def test_a_project_is_told_that_an_older_namespace_has_the_id_and_runs_once_it_has_its_own() -> None:
    there = ReconcileLoop(cluster())
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "OrganisationTaken")
    assert "the namespace first is" in message
    assert f"kubectl label --overwrite namespace {NAMESPACE} tieline.dev/organisation=" in message
    assert there.deployment() is None

    await there.changed(r.NAMESPACES, namespace(age=100, organisation=OTHER))
    assert there.deployment() is not None


async def test_what_runs_goes_on_when_an_older_namespace_comes_to_carry_the_id() -> None:
    there = ReconcileLoop(cluster(older=False))
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")
    # The older one was no organisation before: it is labelled only now.
    await there.changed(r.NAMESPACES, namespace("first", age=200))
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "OrganisationTaken")
    assert there.deployment() is not None
    assert there.environment()["status"] == "running"


@pytest.mark.parametrize("older", [True, False])
def test_all_look_ups_agree_on_who_has_the_id(older: bool) -> None:
    there = cluster(older=older)
    directory = CacheDirectory(there)
    winner, other = ("first", NAMESPACE) if older else (NAMESPACE, "first")
    assert directory.namespace_of(ORGANISATION) == winner
    assert directory.organisation_of(winner) == ORGANISATION
    assert directory.organisation_of(other) is None
    assert list(duplicates(there)) == [other]


def test_a_duplicate_is_in_a_metric_and_in_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    there = cluster()
    metrics = Metrics(object_names=True)
    metrics.watch_organisations(lambda: duplicates(there))
    labels = {"namespace": NAMESPACE, "object_namespace": NAMESPACE, "holder": "first"}
    assert metrics.registry.get_sample_value("tieline_operator_duplicate_organisations", labels) == 1

    telling = DuplicateOrganisationLog(there)
    mine, first = namespace(age=100), namespace("first", age=200)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            telling.changed(Change(old=None, new=first))
            telling.changed(Change(old=mine, new=mine))
    assert len(caplog.records) == 1
    assert vars(caplog.records[0]) | {"namespace": NAMESPACE, "holder": "first"} == vars(caplog.records[0])

    there.put(r.NAMESPACES, namespace(age=100, organisation=OTHER))
    assert metrics.registry.get_sample_value("tieline_operator_duplicate_organisations", labels) is None


def test_both_namespaces_are_told_by_events_once_and_again_by_a_replica_that_takes_over() -> None:
    there = cluster()
    told: list[tuple[str, str, str]] = []

    def post(about: Mapping[str, Any], condition: Mapping[str, str]) -> None:
        told.append((about["metadata"]["name"], condition["reason"], condition["message"]))

    telling = DuplicateOrganisationLog(there, post)
    mine, first = namespace(age=100), namespace("first", age=200)
    for one in (mine, first, mine):
        telling.changed(Change(old=None, new=one))
    assert [(name, reason) for name, reason, _ in told] == [
        (NAMESPACE, "OrganisationTaken"),
        ("first", "OrganisationTaken"),
    ]
    assert "The namespace first has the organisation id" in told[0][2]
    assert NAMESPACE not in told[1][2]

    telling.lead()
    assert told[2:] == told[:2]

    there.put(r.NAMESPACES, namespace(age=100, organisation=OTHER))
    telling.changed(Change(old=mine, new=namespace(age=100, organisation=OTHER)))
    telling.lead()
    assert len(told) == 4


def test_the_namespace_that_is_recorded_gets_no_warning_at_a_start() -> None:
    there = cluster()
    told: list[tuple[str, str]] = []
    telling = DuplicateOrganisationLog(
        there, lambda about, condition: told.append((about["metadata"]["name"], condition["message"]))
    )
    mine = namespace(age=100)
    telling.changed(Change(old=None, new=mine))
    stored = {
        "metadata": {
            "name": "tieline-organisations",
            "namespace": "tieline-system",
            "uid": "records",
            "resourceVersion": "7",
        },
        "data": {ORGANISATION: NAMESPACE},
    }
    there.put(r.ORGANISATION_RECORDS, stored)
    # The records are read after the namespaces.
    telling.recorded(Change(old=None, new=stored))
    told.clear()
    telling.lead()
    assert [name for name, _ in told] == ["first", NAMESPACE]
    assert f"The namespace {NAMESPACE} has the organisation id" in told[0][1]


def test_an_event_about_a_namespace_is_in_that_namespace() -> None:
    about = namespace("first", age=200)
    about["metadata"].update(uid="u", resourceVersion="7")
    event = build(
        r.NAMESPACES,
        about,
        {"status": "False", "reason": "OrganisationTaken", "message": "why"},
        instance="operator-0",
        now=NOW,
    )
    assert event["metadata"]["namespace"] == "first"
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "namespace": "first",
        "name": "first",
        "uid": "u",
        "resourceVersion": "7",
    }


@pytest.mark.parametrize("before", [None, "no-ulid"], ids=["no label", "no ULID"])
def test_all_objects_of_a_namespace_are_enqueued_when_it_becomes_an_organisation(before: str | None) -> None:
    there = FakeCluster(project(), system(), connection())
    old, new = namespace(organisation=before), namespace()
    there.put(r.NAMESPACES, new)
    kinds = {key.kind for key in keys_to_enqueue(there, r.NAMESPACES, Change(old=old, new=new))}
    assert kinds == {"Project", "System", "Connection"}
    new = namespace()
    new["metadata"]["annotations"] = {"team": "ops"}
    assert not keys_to_enqueue(there, r.NAMESPACES, Change(old=namespace(), new=new))
