"""Changes of a project's environments, on what the API owns of it."""

from typing import Any

import pytest

from tieline_api.errors import ApiError
from tieline_api.use_cases.environment_changes import add_environment, remove_environment, set_runtime


def project(*environments: dict[str, Any], git: dict[str, Any] | None = None) -> dict[str, Any]:
    """A Project with these environments, of which others own the fields of ``git``."""
    entry = {"manager": "git", "operation": "Apply", "fieldsV1": {"f:spec": {"f:environments": git or {}}}}
    spec = {"environments": list(environments)} if environments else {}
    return {"metadata": {"name": "p", "managedFields": [entry]}, "spec": spec}


def mine(*environments: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"environments": list(environments)} if environments else {}}


def names(obj: dict[str, Any]) -> list[str]:
    return [one["name"] for one in obj["spec"].get("environments") or ()]


def of(name: str, *fields: str) -> dict[str, Any]:
    """The managed fields of one environment."""
    return {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}, **{f"f:{field}": {} for field in fields}}}


def test_the_default_environment_stays_beside_the_first_that_is_added() -> None:
    owned = mine()
    add_environment(project(), owned, "staging", {"replicas": 2})
    assert owned["spec"]["environments"] == [
        {"name": "production"},
        {"name": "staging", "runtime": {"replicas": 2}},
    ]


def test_environments_of_others_are_not_taken_over() -> None:
    owned = mine()
    add_environment(project({"name": "production"}, git=of("production")), owned, "staging")
    assert names(owned) == ["staging"]


@pytest.mark.parametrize(
    ("environments", "name"),
    [((), "production"), (({"name": "a"},), "a"), (tuple({"name": f"e{n}"} for n in range(20)), "more")],
)
def test_a_name_is_taken_once_and_twenty_are_enough(
    environments: tuple[dict[str, Any], ...], name: str
) -> None:
    owned = mine()
    with pytest.raises(ApiError) as refused:
        add_environment(project(*environments), owned, name)
    assert refused.value.status == 409
    assert names(owned) == []


def test_only_ours_is_removed_and_never_the_last_one() -> None:
    two = ({"name": "a"}, {"name": "b"})
    owned = mine(*two)
    remove_environment(project(*two), owned, "a")
    assert names(owned) == ["b"]
    for live, name, status in (
        (project({"name": "a"}), "a", 409),
        (project(), "production", 409),
        (project(*two), "c", 404),
        (project(*two, git=of("a", "version")), "a", 409),
    ):
        with pytest.raises(ApiError) as refused:
            remove_environment(live, mine({"name": "a"}), name)
        assert refused.value.status == status


def test_fields_of_a_runtime_are_set_replaced_and_left_out() -> None:
    runtime = {"replicas": 2, "image": "own", "env": [{"name": "A", "value": "1"}]}
    live = project({"name": "a", "runtime": runtime})
    owned = mine({"name": "a", "version": "v1", "runtime": dict(runtime)})
    set_runtime(live, owned, "a", {"replicas": 0, "image": "", "resources": {"limits": {"cpu": "1"}}})
    assert owned["spec"]["environments"] == [
        {
            "name": "a",
            "version": "v1",
            "runtime": {
                "replicas": 0,
                "env": [{"name": "A", "value": "1"}],
                "resources": {"limits": {"cpu": "1"}},
            },
        }
    ]


def test_what_others_own_of_a_runtime_is_not_left_out() -> None:
    runtime = {
        "image": "git",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "env": [{"name": "A", "value": "1"}],
    }
    fields = {
        "f:image": {},
        "f:resources": {"f:limits": {"f:cpu": {}}},
        "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
    }
    live = project({"name": "a", "runtime": runtime}, git={'k:{"name":"a"}': {"f:runtime": fields}})
    for changes, shown in (
        ({"image": ""}, "image"),
        ({"resources": {}}, "resources.limits.cpu"),
        ({"env": []}, "env.A"),
    ):
        with pytest.raises(ApiError) as refused:
            set_runtime(live, mine({"name": "a"}), "a", changes)
        assert (refused.value.status, refused.value.extra["managers"]) == (409, ["git"])
        assert f'environments["a"].runtime.{shown} belongs to "git"' in refused.value.message
    owned = mine({"name": "a", "runtime": {"resources": {"limits": {"memory": "1Gi"}}}})
    set_runtime(live, owned, "a", {"resources": {"limits": {"cpu": "1"}}})
    assert owned["spec"]["environments"][0]["runtime"] == {"resources": {"limits": {"cpu": "1"}}}
