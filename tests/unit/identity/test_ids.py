"""Anyone who sees an object computes the same id for it."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from tieline_core.identity import ids
from tieline_core.identity.names import workload_name

MOMENTS = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)


OTHER = "01M80JXM4R3ZHNXPA4H0RGWEFG"


def stored(**metadata):
    return {
        "metadata": {"name": "shop", "uid": "u-1", "creationTimestamp": "2026-11-01T10:00:00Z", **metadata}
    }


def test_an_id_never_changes_once_it_is_recorded():
    recorded = {**stored(), "status": {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}
    assert ids.object_id(recorded) == "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    labelled = {**stored(labels={ids.ID_LABEL: OTHER}), "status": recorded["status"]}
    assert ids.object_id(labelled) == "01ARZ3NDEKTSV4RRFFQ69G5FAV", "whatever the label says"
    assert ids.object_id({**stored(), "status": {"id": "mine"}}) == ids.object_id(stored())


def test_an_object_without_a_label_has_the_time_of_its_creation_in_its_id():
    identifier = ids.object_id(stored())
    assert ULID.from_str(identifier).datetime == datetime(2026, 11, 1, 10, tzinfo=UTC)
    assert identifier == ids.object_id(stored(name="renamed"))
    assert identifier != ids.object_id(stored(uid="u-2"))


def test_a_label_that_the_user_sets_wins_in_either_case():
    identifier = ids.new_id()
    assert ids.object_id(stored(labels={ids.ID_LABEL: identifier})) == identifier
    assert ids.object_id(stored(labels={ids.ID_LABEL: identifier.lower()})) == identifier


def test_a_label_that_is_no_ulid_is_not_an_id():
    assert ids.object_id(stored(labels={ids.ID_LABEL: "mine"})) == ids.object_id(stored())


def test_a_change_has_the_same_text_for_whoever_sees_the_object_and_another_for_each_generation():
    seen = stored(generation=3, resourceVersion="812")
    change = ids.change_id(seen)
    assert change == f"{ids.object_id(seen)}.3"
    labelled = stored(generation=3, resourceVersion="900", labels={ids.ID_LABEL: ids.object_id(seen)})
    assert ids.change_id(labelled) == change, "the status and the label are no change"
    assert ids.change_id(stored(generation=4, resourceVersion="901")) == f"{ids.object_id(seen)}.4"
    assert ids.change_id(seen, 2) == f"{ids.object_id(seen)}.2"
    assert ids.change_id(stored(resourceVersion="812")) == f"{ids.object_id(seen)}.812", "Secrets have none"


@given(MOMENTS, st.text(max_size=60))
def test_every_derived_id_is_a_ulid(moment, seed):
    identifier = ids.derived_id(created=moment, seed=seed)
    assert ids.parse_id(identifier) == identifier
    assert ids.parse_id(identifier.lower()) == identifier


@given(st.text(max_size=30))
def test_only_ulids_are_ids(text):
    parsed = ids.parse_id(text)
    assert parsed is None or str(ULID.from_str(parsed)) == parsed


def test_environments_of_a_project_have_ids_of_their_own_that_stay():
    project = ids.new_id()
    production = ids.environment_id(project, "production")
    assert production == ids.environment_id(project, "production")
    assert (
        len({production, ids.environment_id(project, "staging"), ids.static_activation_id(production)}) == 3
    )


NAME = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?\Z")


@given(NAME, NAME)
def test_every_workload_name_is_one_that_a_service_may_have(project, environment):
    name = workload_name(project, environment)
    assert len(name) <= 46
    assert name[0].isalpha()
    assert all(char.isalnum() or char == "-" for char in name)


def test_projects_and_environments_that_read_alike_do_not_share_a_workload():
    assert workload_name("a-b", "c") != workload_name("a", "b-c")
    assert workload_name("x" * 60, "a") != workload_name("x" * 60, "b")
