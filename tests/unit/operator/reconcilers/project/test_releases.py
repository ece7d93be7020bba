"""The releases of an environment: who deployed what and when, and what became of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.operator.objects import NOW, project
from tests.unit.operator.project_fixtures import change, reconciling, running, source
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop, crashed
from tests.unit.operator.reconcilers.project.test_rollouts import PRODUCTION, crashing, deployed, long_running
from tieline_core.resources.releases import MAX_RELEASES, DeployNote, Release, RolloutState
from tieline_operator.reconcilers.project.releases import Deploy, Outcome, next_releases
from tieline_operator.workload.pods import Failure

NOTE = {
    "id": "01JD3Y000000000000000000R1",
    "by": "oidc:ann@acme.example",
    "message": "faster",
    "revision": "6d3c",
}


def releases(there: ReconcileLoop) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = there.environment()["releases"]
    return found


async def test_a_deploy_by_kubectl_is_a_release() -> None:
    there = await long_running()
    (only,) = releases(there)
    assert (only["number"], only["version"]) == (1, there.environment()["version"])
    assert (only["rollout"], only["healthy"]) == ("complete", True)
    assert only["servedFrom"]
    assert not {"servedUntil", "by"} & only.keys()


async def test_a_crash_is_kept_with_its_error_after_a_rollback() -> None:
    there = await long_running()
    first = there.environment()["version"]
    bad = await deployed(there, "print('crashes')\n", crashing)
    newest, before = releases(there)
    assert (newest["version"], newest["rollout"], newest["reason"]) == (bad, "failed", "Crashed")
    assert "exit code" in newest["failure"]
    assert "\n" not in newest["failure"]
    assert "servedFrom" not in newest
    assert before["version"] == first
    assert "servedUntil" not in before, "it keeps serving"

    change(there, environments=[{"name": "production", "version": first}])
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    rolled_back, failed, old = releases(there)
    assert (rolled_back["number"], rolled_back["version"]) == (3, first)
    assert failed["reason"] == "Crashed"
    assert "servedUntil" in old, "the same version is served by the newest"
    assert "servedUntil" not in rolled_back


async def test_a_version_that_crashes_after_it_served_says_why() -> None:
    there = await long_running()
    there.kubelet(ready=False, status=crashed())
    await there.until_quiet()
    (only,) = releases(there)
    assert (only["rollout"], only["reason"]) == ("complete", "Crashed")
    there.kubelet()
    await there.until_quiet()
    assert "reason" not in releases(there)[0]


async def test_a_refused_deploy_is_a_release_that_failed() -> None:
    there = await running()
    change(there, environments=[{"name": "production", "version": "order-sync-nowhere"}])
    await there.until_quiet()
    assert releases(there)[0]["rollout"] == "progressing", "a cache may be late"
    await there.advance(3)
    newest = releases(there)[0]
    assert (newest["rollout"], newest["reason"]) == ("failed", "VersionNotFound")


async def test_a_note_names_who_deployed_only_once() -> None:
    there = await running()
    first = there.environment()["version"]
    note = {**NOTE, "version": first}
    change(there, environments=[{"name": "production", "version": first, "deployNote": note}])
    await there.until_quiet()
    newest = releases(there)[0]
    assert (newest["number"], newest["by"], newest["message"]) == (2, NOTE["by"], "faster")
    assert newest["revision"] == "6d3c"

    await deployed(there, "print('other')\n")
    change(there, environments=[{"name": "production", "version": first, "deployNote": note}])
    await there.until_quiet()
    newest = releases(there)[0]
    assert newest["version"] == first
    assert "by" not in newest, "Ann's note is about her deploy, not about this one"


async def test_annotations_and_labels_say_where_a_manifest_is_from() -> None:
    obj = project(source=source("print('x')\n"), environments=[PRODUCTION])
    obj["metadata"]["labels"] = {"kustomize.toolkit.fluxcd.io/name": "apps"}
    obj["metadata"]["annotations"] = {
        "tieline.dev/source-revision": "main@sha1:6d3c",
        "kubernetes.io/change-cause": f"new prices\n{'x' * 900}",
    }
    there = reconciling(obj)
    await there.until_quiet()
    (only,) = releases(there)
    assert only["via"] == 'Flux (Kustomization "apps")'
    assert (only["revision"], only["message"]) == ("main@sha1:6d3c", "new prices")


async def test_releases_survive_another_operator_and_a_suspension() -> None:
    there = await long_running()
    change(there, environments=[{**PRODUCTION, "suspended": True}])
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert "servedUntil" in releases(there)[0]
    again = ReconcileLoop(there.cluster, config=CONFIG)
    again.now = there.now
    change(again, environments=[PRODUCTION])
    await again.until_quiet()
    again.kubelet()
    await again.until_quiet()
    (only,) = releases(again)
    assert "servedUntil" not in only


async def test_a_change_of_settings_is_no_release() -> None:
    there = await running()
    change(there, runtime={"env": [{"name": "LEVEL", "value": "debug"}]})
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert [one["number"] for one in releases(there)] == [1]


async def test_settings_that_do_not_work_are_no_crash_of_what_serves() -> None:
    there = await long_running()
    change(there, runtime={"env": [{"name": "LEVEL", "value": "debug"}]})
    await there.until_quiet()
    there.kubelet(ready=False, status=crashed())
    await there.until_quiet()
    assert "new pods do not start" in there.environment()["message"]
    (only,) = releases(there)
    assert "reason" not in only
    assert "servedUntil" not in only


VERSIONS = st.sampled_from(["a", "b", "c"])
NOTES = st.builds(
    DeployNote,
    id=st.integers(0, 9).map(lambda number: f"{number:026}"),
    version=VERSIONS,
    by=st.sampled_from(["ann", "bob"]),
)
DEPLOYS = st.none() | st.builds(
    Deploy, version=VERSIONS, note=st.none() | NOTES, message=st.text(max_size=400)
)
OUTCOMES = st.builds(
    Outcome,
    rollout=st.none() | st.sampled_from(RolloutState),
    serving=st.none() | VERSIONS,
    is_suspended=st.booleans(),
    is_healthy=st.booleans(),
    failure=st.none() | st.builds(Failure, reason=st.just("Crashed"), message=st.text(max_size=400)),
)


@given(st.lists(st.tuples(DEPLOYS, OUTCOMES), max_size=60))
def test_whatever_happens_releases_are_bounded_and_in_order(
    steps: list[tuple[Deploy | None, Outcome]],
) -> None:
    found: list[Release] = []
    for at, (deploy, outcome) in enumerate(steps):
        before, now = found, NOW + timedelta(seconds=at)
        found = next_releases(before, deploy, outcome, now)
        numbers = [one.number for one in found]
        assert len(found) <= MAX_RELEASES
        assert numbers == sorted(set(numbers), reverse=True)
        assert {one.number for one in before[: MAX_RELEASES - 1]} <= set(numbers), "none is lost too early"
        serving = [one for one in found if one.served_from and not one.served_until]
        assert sum(one.version == outcome.serving for one in serving) <= 1
        assert all(Release.model_validate(one.to_dict()) == one for one in found)
        assert next_releases(found, deploy, outcome, now) == found, "the same again changes nothing"


def test_a_note_that_is_left_over_never_speaks_for_a_later_deploy() -> None:
    anns = DeployNote(id="1", version="a", by="ann")
    outcome = Outcome(rollout=RolloutState.COMPLETE, serving=None)
    found: list[Release] = []
    versions = ["a", *["b", "c"] * MAX_RELEASES, "a"]
    for at, version in enumerate(versions):
        deploy = Deploy(version=version, note=anns)
        found = next_releases(found, deploy, outcome, NOW + timedelta(seconds=at))
        assert found[0].by == ("ann" if at == 0 else "")
    assert found[0].number == len(versions)


@pytest.mark.parametrize("text", ["", " \n ", "a\nb", "é" * 300, "\x1b[31m red", "👍" * 256])
def test_texts_are_one_short_line_that_can_be_read(text: str) -> None:
    outcome = Outcome(
        rollout=RolloutState.FAILED, serving=None, failure=Failure(reason="Crashed", message=text)
    )
    (only,) = next_releases((), Deploy(version="a", message=text, revision=text, via=text), outcome, NOW)
    for shown in (only.message, only.revision, only.via, only.failure):
        assert len(shown.encode()) <= 256, "texts of all releases go into one object"
        assert "\n" not in shown
        assert "\x1b" not in shown
