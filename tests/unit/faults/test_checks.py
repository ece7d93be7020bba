"""The judgement of a history's end: each thing that may be wrong is told, and nothing else."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.faults.checks import judge, settle
from tests.faults.model import Model, Outcome, Project, Register
from tests.faults.observation import Observation

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DONE = Outcome.DONE


def model() -> Model:
    """A project with a version and an activated user, all acknowledged."""
    project = Project("ann-1", "rest", complete=True)
    for register, value in (
        (project.exists, True),
        (project.text, "one"),
        (project.region, "eu"),
        (project.key, 7),
        (project.family, 8),
    ):
        register.write(value, 0.0, DONE)  # type: ignore[attr-defined]
    user, activation = Register(False), Register("")
    user.write(True, 0.0, DONE)
    activation.write("us", 0.0, DONE)
    return Model({"ann-1": project}, {"ann-user": user}, {("ann-1", "ann-user"): activation})


def thing(kind: str, name: str, spec: Any = None, *, own: bool = True, **metadata: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "Good", "message": ""}
    return {
        "apiVersion": "tieline.dev/v1alpha1" if own else "v1",
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{kind}-{name}", "generation": 1, **metadata},
        "spec": spec or {},
        "status": {"observedGeneration": 1, "conditions": [ready]},
    }


def seen() -> Observation:
    """What fits that model."""
    found = Observation()
    environments = [{"name": "production", "version": "v1"}]
    project = thing("Project", "p1", {"name": "ann-1", "environments": environments})
    project["status"]["environments"] = [
        {"name": "production", "status": "running", "version": "v1", "publicUrl": "http://x"}
    ]
    version = thing("ProjectVersion", "v1", {"projectRef": {"name": "p1"}, "labels": {"says": "one"}})
    activation = {"projectRef": {"name": "p1"}, "endUserRef": {"name": "u1"}, "variables": {"region": "us"}}
    label = {"tieline.dev/project": "p1"}
    for obj in (
        project,
        version,
        thing("EndUser", "u1", {"externalId": "ann-user"}),
        thing("Activation", "a1", activation),
        *(
            thing(kind, "child", own=False, labels=label)
            for kind in ("Deployment", "Service", "ServiceAccount", "NetworkPolicy", "Pod")
        ),
    ):
        found.objects[obj["kind"]].append(obj)
    found.rest_projects = [{"ann-1": "running"}]
    found.rest_users = [{"ann-user"}]
    answers = {"desk": {"status": 200, "key": 7}, "bank": {"status": 200, "family": 8}}
    found.served = {"ann-1": {"text": "one", "region": "eu", **answers}}
    return found


def complaints(wanted: Model, found: Observation) -> list[str]:
    return judge(wanted, found, NOW).complaints


def test_what_is_as_it_was_written_is_not_complained_of() -> None:
    assert complaints(model(), seen()) == []


def _without(kind: str) -> Any:
    def change(found: Observation) -> None:
        found.objects[kind].clear()

    return change


def _served(**changes: Any) -> Any:
    return lambda found: found.served["ann-1"].update(changes)


def _status(**changes: Any) -> Any:
    return lambda found: found.objects["Project"][0]["status"]["environments"][0].update(changes)


def _metadata(kind: str, **changes: Any) -> Any:
    return lambda found: found.objects[kind][0]["metadata"].update(changes)


def _again(kind: str) -> Any:
    def change(found: Observation) -> None:
        twin = copy.deepcopy(found.objects[kind][0])
        twin["metadata"]["name"] = "twin"
        found.objects[kind].append(twin)

    return change


OWNED = [{"kind": "Connection", "name": "gone", "uid": "nobody"}]
HARMS: dict[str, tuple[Any, str]] = {
    "a project that is lost": (_without("Project"), "ann-1.exists is False"),
    "a user that is lost": (_without("EndUser"), "user ann-user is False"),
    "an activation that is lost": (_without("Activation"), "activation of ann-user in ann-1 is ''"),
    "a child that is gone": (_without("Service"), "ann-1 has 0 Service"),
    "a pod that is gone": (_without("Pod"), "is running and has 0 pods"),
    "a second project of the name": (_again("Project"), "is there 2 times"),
    "pods that serve another version": (_served(text="old"), "ann-1.text is \"'old' where"),
    "an old variable": (_served(region="old"), "ann-1.region is 'old'"),
    "an old key": (_served(desk={"status": 200, "key": 3}), "ann-1.key is 3"),
    "tokens that are not taken": (_served(bank={"status": 401}), "ann-1.family is 'status 401'"),
    "pods that do not answer": (
        lambda found: found.served.update({"ann-1": "refused"}),
        "does not answer: refused",
    ),
    "a status of another version": (_status(version="v0"), "where v1 is wanted"),
    "an environment that never starts": (_status(status="deploying"), "is deploying instead of running"),
    "doors that do not agree": (
        lambda found: found.rest_projects.append({"ann-1": "suspended"}),
        "suspended at API 1",
    ),
    "a user that one replica does not know": (
        lambda found: found.rest_users.append(set()),
        "not the same by kubectl and at API 1",
    ),
    "a change that nobody looked at": (_metadata("EndUser", generation=2), "was not looked at"),
    "a child without its owner": (_metadata("Deployment", ownerReferences=OWNED), "is left of Connection"),
    "a child of no project": (
        _metadata("Deployment", labels={"tieline.dev/project": "p0"}),
        "is left of the project p0",
    ),
    "a finalizer": (_metadata("EndUser", finalizers=["x/y"]), "has finalizers"),
    "a deletion that hangs": (
        _metadata("EndUser", deletionTimestamp="2026-11-21T11:58:00Z"),
        "has been going since",
    ),
}


@pytest.mark.parametrize(("harm", "told"), HARMS.values(), ids=HARMS)
def test_it_tells_of(harm: Any, told: str) -> None:
    found = seen()
    harm(found)
    assert any(told in one for one in complaints(model(), found)), complaints(model(), found)


def test_a_write_without_an_answer_may_have_happened_or_not() -> None:
    wanted, found = model(), seen()
    wanted.projects["ann-1"].region.write("us", 1.0, Outcome.UNKNOWN)
    assert complaints(wanted, found) == []
    _served(region="us")(found)
    assert complaints(wanted, found) == []


def test_a_refused_write_must_not_be_there() -> None:
    wanted, found = model(), seen()
    wanted.projects["ann-1"].region.write("us", 1.0, Outcome.REFUSED)
    _served(region="us")(found)
    assert complaints(wanted, found)


def test_what_was_seen_at_rest_counts_from_then_on() -> None:
    wanted, found = model(), seen()
    wanted.projects["ann-1"].region.write("us", 1.0, Outcome.UNKNOWN)
    settle(wanted, judge(wanted, found, NOW).facts)
    _served(region="us")(found)
    assert complaints(wanted, found)
