"""A namespace keeps the organisation's id that it had first, and its events with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, ORGANISATION, namespace, project
from tests.unit.operator.project_fixtures import reconciling
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.engine.accounts import StreamFacts
from tieline_core.engine.streams import StreamOwner
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.kubernetes import Applied, Change
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.plan import Key
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.cache.event_mapping import keys_to_enqueue
from tieline_operator.cache.organisations import duplicates, updated_records
from tieline_operator.controller.organisation_recorder import RESERVED_SECONDS, OrganisationRecorder
from tieline_operator.engine.desired_streams import KnownStreams, organisation_stream_names
from tieline_operator.engine.service import SURVEY_SECONDS
from tieline_operator.engine.stream_collector import GONE_SECONDS
from tieline_protocol.event_streams import EventStreams

OTHER = "01BX5ZZKBKACTAV9WEVGEMMVRZ"
HOME = "tieline-system"


def records(data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": "tieline-organisations", "namespace": HOME, "uid": "records", "resourceVersion": "7"}
    return {"metadata": metadata, "data": dict(data)}


async def recorded_and_running() -> ReconcileLoop:
    """An organisation whose project runs, and which is recorded."""
    there = reconciling(project())
    there.cluster.put(r.NAMESPACES, namespace(age=100))
    there.cluster.put(r.ORGANISATION_RECORDS, records({ORGANISATION: NAMESPACE}))
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")
    return there


async def test_an_older_namespace_cannot_take_an_organisation() -> None:
    there = await recorded_and_running()
    await there.changed(r.NAMESPACES, namespace("older", age=9000))
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")
    directory = CacheDirectory(there.cluster)
    assert directory.namespace_of(ORGANISATION) == NAMESPACE
    assert directory.organisation_of("older") is None
    assert list(duplicates(there.cluster)) == ["older"]


async def test_a_lost_label_is_suggested_as_it_was_and_takes_nothing_away() -> None:
    there = await recorded_and_running()
    there.cluster.put(r.NAMESPACES, namespace(organisation=None, age=100))
    before = there.deployment()
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "OrganisationMissing")
    assert (
        f"kubectl label --overwrite namespace {NAMESPACE} tieline.dev/organisation={ORGANISATION}" in message
    )
    assert there.deployment() == before
    # Nobody else gets the id meanwhile.
    there.cluster.put(r.NAMESPACES, namespace("older", age=9000))
    assert CacheDirectory(there.cluster).namespace_of(ORGANISATION) is None
    assert_streams_are_known(there.cluster)


async def test_another_label_is_refused_while_the_namespace_has_objects() -> None:
    there = await recorded_and_running()
    before = there.deployment()
    there.cluster.put(r.NAMESPACES, namespace(organisation=OTHER, age=100))
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "OrganisationChanged")
    assert (
        f"kubectl label --overwrite namespace {NAMESPACE} tieline.dev/organisation={ORGANISATION}" in message
    )
    assert there.deployment() == before
    assert CacheDirectory(there.cluster).namespace_of(OTHER) is None
    assert_streams_are_known(there.cluster)

    there.cluster.put(r.NAMESPACES, namespace(age=100))
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")


LABELS = {
    "acme": ("OrganisationMissing", {}),
    OTHER.lower(): ("OrganisationChanged", {ORGANISATION: NAMESPACE}),
    ORGANISATION.lower(): ("OrganisationTaken", {ORGANISATION: "older"}),
}


@pytest.mark.parametrize("label", LABELS)
async def test_the_command_in_a_message_passes_the_policy(label: str) -> None:
    reason, recorded = LABELS[label]
    there = reconciling(project(), organisation=False)
    there.cluster.put(r.NAMESPACES, namespace(organisation=label, age=100), namespace("older", age=9000))
    there.cluster.put(r.ORGANISATION_RECORDS, records(recorded))
    await there.until_quiet()
    found = there.ready(r.PROJECTS, "order-sync")
    assert found[:2] == ("False", reason)
    # The policy compares the annotation with the label as it is, also where that holds no ULID.
    assert f"namespace {NAMESPACE} tieline.dev/previous-organisation={label} &&" in found[2]


def assert_streams_are_known(cluster: FakeCluster) -> None:
    """The collector deletes none of the organisation's streams."""
    known = KnownStreams(cluster)
    (found,) = cluster[r.PROJECTS].list()
    environment = environment_id(object_id(found), "production")
    assert known.has_environment(EventStreams(ORGANISATION, environment))
    assert all(stream in known for stream in organisation_streams(NAMESPACE))


def organisation_streams(of: str) -> list[StreamFacts]:
    """The streams of the organisation as the engine has them, made while the namespace ``of`` was it."""
    owner = StreamOwner(release="r", organisation=ORGANISATION, namespace=of)
    return [
        StreamFacts(
            account="A",
            name=name,
            owner=owner,
            settings="",
            messages=0,
            last_sequence=0,
            consumers=0,
            oldest=None,
        )
        for name in organisation_stream_names(ORGANISATION)
    ]


def test_the_next_namespace_with_an_id_gets_no_runs_of_the_one_before() -> None:
    cluster = FakeCluster()
    cluster.put(r.NAMESPACES, namespace("waiting"))
    cluster.put(r.ORGANISATION_RECORDS, records({ORGANISATION: "gone"}))
    known = KnownStreams(cluster)
    assert not any(stream in known for stream in organisation_streams("gone"))
    assert RESERVED_SECONDS > GONE_SECONDS + 2 * SURVEY_SECONDS, "they are deleted before the id is free"
    # A record that is older than the move to another namespace takes nothing from that one.
    assert all(stream in known for stream in organisation_streams("waiting"))


CASES: dict[str, tuple[dict[str, str], dict[str, str | None], set[str], set[str], dict[str, str]]] = {
    "a new organisation": ({}, {"acme": ORGANISATION}, set(), set(), {ORGANISATION: "acme"}),
    "the older one of two new ones": (
        {}, {"older": ORGANISATION, "acme": ORGANISATION}, set(), set(), {ORGANISATION: "older"},
    ),
    "a lost label": ({ORGANISATION: "acme"}, {"acme": None}, {"acme"}, set(), {ORGANISATION: "acme"}),
    "a changed label": ({ORGANISATION: "acme"}, {"acme": OTHER}, {"acme"}, set(), {ORGANISATION: "acme"}),
    "a changed label without objects": ({ORGANISATION: "acme"}, {"acme": OTHER}, set(), set(), {OTHER: "acme"}),
    "a claim on a lost label": (
        {ORGANISATION: "acme"}, {"older": ORGANISATION, "acme": None}, {"acme"}, set(), {ORGANISATION: "acme"},
    ),
    "an organisation that moves": (
        {ORGANISATION: "acme"}, {"older": ORGANISATION, "acme": None}, set(), set(), {ORGANISATION: "older"},
    ),
    "a namespace that is gone": ({ORGANISATION: "acme"}, {"older": ORGANISATION}, set(), set(), {ORGANISATION: "acme"}),
    "an id in another form": (
        {ORGANISATION.lower(): "acme"}, {"acme": ORGANISATION}, {"acme"}, set(), {ORGANISATION: "acme"},
    ),
    "one that is gone for long": (
        {ORGANISATION: "acme"}, {"older": ORGANISATION}, set(), {"acme"}, {ORGANISATION: "older"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_records_follow_who_had_an_id_first(case: str) -> None:
    before, labels, used, released, expected = CASES[case]
    namespaces = [
        namespace(name, organisation=identifier, age=1000 - index)
        for index, (name, identifier) in enumerate(labels.items())
    ]
    assert updated_records(before, namespaces, in_use=used.__contains__, released=released) == expected


class Written:
    """Applies to the cluster in memory, as a server-side apply of all records does."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.applied: list[dict[str, Any]] = []

    async def apply(self, resource: Any, obj: Mapping[str, Any], **_: Any) -> Applied:
        self.applied.append(dict(obj))
        stored = records(obj["data"])
        self.cluster.put(resource, stored)
        return Applied(object=stored, created=False)

    def observe(self, resource: Any, obj: Any) -> None:
        """It is there already."""


async def test_the_leader_records_organisations_and_releases_them_once_they_are_gone() -> None:
    cluster = FakeCluster(project())
    cluster.put(r.NAMESPACES, namespace(age=100), namespace("second", organisation=OTHER))
    written, moment = Written(cluster), [0.0]
    recorder = OrganisationRecorder(cluster, written, written, HOME, now=lambda: moment[0])  # type: ignore[arg-type]
    assert await recorder._record(HOME) is None
    assert written.applied[-1]["data"] == {ORGANISATION: NAMESPACE, OTHER: "second"}
    await recorder._record(HOME)
    assert len(written.applied) == 1, "nothing differs"

    del cluster.objects[r.NAMESPACES]["", "second"]
    assert await recorder._record(HOME) == 60.0
    moment[0] += RESERVED_SECONDS
    assert await recorder._record(HOME) is None
    assert written.applied[-1]["data"] == {ORGANISATION: NAMESPACE}
    assert written.applied[-1]["metadata"]["resourceVersion"] == "7", "another leader's records are not lost"


async def test_records_that_are_deleted_are_written_as_they_were() -> None:
    cluster = FakeCluster(project())
    cluster.put(r.NAMESPACES, namespace(age=100))
    written = Written(cluster)
    recorder = OrganisationRecorder(cluster, written, written, HOME)  # type: ignore[arg-type]
    await recorder._record(HOME)
    cluster.put(r.NAMESPACES, namespace("older", age=9000))
    cluster.remove(r.ORGANISATION_RECORDS, "tieline-organisations", HOME)
    assert not cluster[r.ORGANISATION_RECORDS].list()
    await recorder._record(HOME)
    assert written.applied[-1]["data"] == {ORGANISATION: NAMESPACE}


def test_a_record_brings_the_objects_that_it_concerns() -> None:
    cluster = FakeCluster(project())
    cluster.put(r.NAMESPACES, namespace(age=100))
    mine = Key("Project", NAMESPACE, "order-sync")

    def keys(before: Mapping[str, str], after: Mapping[str, str]) -> set[Key]:
        change = Change(old=records(before), new=records(after))
        return keys_to_enqueue(cluster, r.ORGANISATION_RECORDS, change)

    assert keys({}, {ORGANISATION: NAMESPACE}) == set(), "it was that before"
    assert mine in keys({ORGANISATION: "older"}, {ORGANISATION: NAMESPACE})
    assert mine in keys({ORGANISATION: NAMESPACE}, {OTHER: NAMESPACE})
    cluster.put(r.NAMESPACES, namespace("older", age=9000))
    assert mine in keys({}, {ORGANISATION: "older"})
