"""What becomes of a deploy: by the state of the environment that it comes to, and by what the version is like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.unit.operator.objects import project
from tests.unit.operator.project_fixtures import change, reconciling, running, source
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop, crashed, no_image
from tieline_core.identity.ids import format_time
from tieline_core.kubernetes import resources as r

PRODUCTION = {"name": "production", "version": "latest"}
MISSING_SECRET = {"env": [{"name": "DB", "valueFrom": {"secretKeyRef": {"name": "nowhere", "key": "url"}}}]}


async def draft() -> ReconcileLoop:
    there = reconciling(project(environments=[{"name": "production"}]))
    await there.until_quiet()
    return there


async def suspended() -> ReconcileLoop:
    there = await running()
    change(there, environments=[{**PRODUCTION, "suspended": True}])
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["status"] == "suspended"
    return there


async def failing() -> ReconcileLoop:
    there = reconciling(project(source=source("print('crashes')\n")))
    await there.until_quiet()
    there.kubelet(ready=False, status=crashed())
    await there.until_quiet()
    assert there.environment()["status"] == "error"
    return there


async def rolling_out() -> ReconcileLoop:
    there = await running()
    change(there, source=source("print('under way')\n"))
    await there.until_quiet()
    there.kubelet(ready=False)
    await there.until_quiet()
    assert there.environment()["rollout"] == "progressing"
    return there


def good(there: ReconcileLoop) -> None:
    there.kubelet()


def crashing(there: ReconcileLoop) -> None:
    there.kubelet(ready=False, status=crashed())


def without_image(there: ReconcileLoop) -> None:
    there.kubelet(ready=False, status=no_image())


def never_ready(there: ReconcileLoop) -> None:
    there.kubelet(ready=False)
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    there.deployment()["status"]["conditions"] = [late]


Start = Callable[[], Awaitable[ReconcileLoop]]
STARTS: list[Start] = [draft, running, suspended, failing, rolling_out]
# The state before the version has pods, and the state when it has failed.
STATES: dict[Start, tuple[str, str]] = {
    draft: ("draft", "error"),
    running: ("running", "running"),
    suspended: ("suspended", "error"),
    failing: ("error", "error"),
    rolling_out: ("running", "running"),
}


def deploy(there: ReconcileLoop, text: str = "print('new')\n", **spec: object) -> None:
    change(there, source=source(text), environments=[PRODUCTION], **spec)


@pytest.mark.parametrize("begins", STARTS, ids=lambda start: start.__name__)
@pytest.mark.parametrize(
    ("pods", "reason"),
    [(good, None), (crashing, "Crashed"), (without_image, "ImagePullFailed"), (never_ready, "StartTimeout")],
    ids=["good", "crashing", "without_image", "never_ready"],
)
async def test_a_rollout_ends_with_its_own_outcome(
    begins: Start, pods: Callable[[ReconcileLoop], None], reason: str | None
) -> None:
    there = await begins()
    before, failed = STATES[begins]
    first = there.environment()
    deploy(there)
    await there.until_quiet()
    under_way = there.environment()
    assert (under_way["rollout"], under_way["status"]) == ("progressing", before)
    assert under_way["desiredVersion"] != first.get("desiredVersion")
    assert "deployFailure" not in under_way

    pods(there)
    await there.until_quiet()
    ended = there.environment()
    if reason is None:
        assert (ended["rollout"], ended["status"]) == ("complete", "running")
        assert ended["version"] == ended["desiredVersion"]
        assert ended["desiredVersion"] not in names(ended), "it may die in a moment"
        await there.advance(CONFIG.healthy_seconds)
        assert names(there.environment())[0] == ended["desiredVersion"]
        return
    assert (ended["rollout"], ended["deployFailure"]) == ("failed", reason)
    assert (ended["status"], ended.get("version")) == (failed, first.get("version"))
    assert ended["desiredVersion"] not in names(ended)


@pytest.mark.parametrize("begins", STARTS, ids=lambda start: start.__name__)
@pytest.mark.parametrize(
    ("text", "spec", "reason"),
    [
        ("def broken(:\n", {}, "VersionRefused"),
        ("print('new')\n", {"runtime": MISSING_SECRET}, "SecretVariableMissing"),
        ('async def f(ctx):\n    await ctx.fetch("nowhere", "/")\n', {}, "TemplateNotFound"),
    ],
    ids=["files_with_errors", "missing_secret", "missing_template"],
)
async def test_a_refused_deploy_starts_nothing(
    begins: Start, text: str, spec: dict[str, object], reason: str
) -> None:
    there = await begins()
    deployment = there.deployment()
    before = (deployment["spec"]["replicas"], _version(there)) if deployment else None
    state = there.environment()["status"]
    deploy(there, text, **spec)
    await there.until_quiet()
    await there.advance(3)
    ended = there.environment()
    assert (ended["rollout"], ended["deployFailure"]) == ("failed", reason)
    assert ended["status"] == ("error" if state == "draft" else state)
    deployment = there.deployment()
    assert ((deployment["spec"]["replicas"], _version(there)) if deployment else None) == before


async def test_what_was_suspended_never_serves_again() -> None:
    there = await suspended()
    old = _version(there)
    for text in ("def broken(:\n", 'async def f(ctx):\n    await ctx.fetch("nowhere", "/")\n'):
        deploy(there, text)
        await there.until_quiet()
        assert (there.deployment()["spec"]["replicas"], _version(there)) == (0, old)
        assert there.environment()["status"] == "suspended"
        assert "nothing runs" in there.ready(r.PROJECTS, "order-sync")[2]
    deploy(there, "print('crashes')\n")
    await there.until_quiet()
    assert (there.deployment()["spec"]["replicas"], _version(there) == old) == (1, False)
    crashing(there)
    await there.until_quiet()
    deploy(there, "def broken(:\n")
    await there.until_quiet()
    assert _version(there) != old


async def test_a_suspension_that_has_not_stopped_pods_yet_counts_too() -> None:
    there = await running()
    change(there, environments=[{**PRODUCTION, "suspended": True}])
    await there.until_quiet()
    # A cache that is behind: the Deployment as it was before the suspension.
    there.deployment()["spec"]["replicas"] = 1
    deploy(there, "def broken(:\n")
    await there.until_quiet()
    assert there.deployment()["spec"]["replicas"] == 0


async def test_the_same_version_is_rolled_out_anew_after_a_suspension() -> None:
    there = await suspended()
    assert "rollout" not in there.environment()
    change(there, environments=[PRODUCTION])
    await there.until_quiet()
    assert there.environment()["rollout"] == "progressing"
    crashing(there)
    await there.until_quiet()
    assert there.environment()["rollout"] == "failed"
    good(there)
    await there.until_quiet()
    assert there.environment()["rollout"] == "complete"


async def test_a_rollout_is_complete_once_every_pod_serves() -> None:
    there = reconciling(project(runtime={"replicas": 2}))
    await there.until_quiet()
    good(there)
    there.deployment()["status"]["readyReplicas"] = 1
    await there.until_quiet()
    assert (there.environment()["status"], there.environment()["rollout"]) == ("running", "progressing")
    assert "healthyVersions" not in there.environment()
    there.deployment()["status"]["readyReplicas"] = 2
    await there.until_quiet()
    assert there.environment()["rollout"] == "complete"
    there.deployment()["status"]["readyReplicas"] = 1
    await there.until_quiet()
    assert there.environment()["rollout"] == "complete", "a pod that is replaced later is no new deploy"


async def test_a_deployment_that_its_controller_has_not_seen_is_not_complete() -> None:
    there = await running()
    change(there, source=source("print('new')\n"))
    await there.until_quiet()
    good(there)
    there.deployment()["metadata"]["generation"] = 2
    await there.until_quiet()
    assert there.environment()["rollout"] == "progressing"
    there.deployment()["status"]["observedGeneration"] = 2
    await there.until_quiet()
    assert there.environment()["rollout"] == "complete"


async def test_a_version_that_the_cache_does_not_have_yet_is_no_failed_deploy() -> None:
    there = await running()
    change(there, environments=[{"name": "production", "version": "order-sync-new"}])
    await there.until_quiet()
    assert there.environment()["rollout"] == "progressing"
    assert there.requeue_after is None or there.requeue_after > 0
    await there.advance(3)
    assert (there.environment()["rollout"], there.environment()["deployFailure"]) == (
        "failed",
        "VersionNotFound",
    )


async def test_without_replicas_a_refused_version_has_failed() -> None:
    there = await running()
    deploy(there, "def broken(:\n", runtime={"replicas": 0})
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert (there.environment()["status"], there.environment()["rollout"]) == ("suspended", "failed")
    deploy(there, runtime={"replicas": 0})
    await there.until_quiet()
    assert (there.environment()["status"], there.environment()["rollout"]) == ("suspended", "complete")


async def deployed(there: ReconcileLoop, text: str, pods: Callable[[ReconcileLoop], None] = good) -> str:
    deploy(there, text)
    await there.until_quiet()
    pods(there)
    await there.until_quiet()
    await there.advance(CONFIG.healthy_seconds)
    name: str = there.environment()["desiredVersion"]
    return name


def names(environment: Mapping[str, Any]) -> list[str]:
    return [one["name"] for one in environment.get("healthyVersions", ())]


async def long_running() -> ReconcileLoop:
    there = await running()
    await there.advance(CONFIG.healthy_seconds)
    return there


async def test_a_version_that_dies_soon_was_never_healthy() -> None:
    there = await long_running()
    first = there.environment()["version"]
    deploy(there, "print('dies')\n")
    await there.until_quiet()
    good(there)
    await there.until_quiet()
    dying = there.environment()["version"]
    assert (there.environment()["rollout"], dying == first) == ("complete", False)
    await there.advance(CONFIG.healthy_seconds - 1)
    crashing(there)
    await there.until_quiet()
    assert "servingSince" not in there.environment()
    good(there)
    await there.advance(CONFIG.healthy_seconds - 1)
    assert names(there.environment()) == [first], "its time begins anew"
    # Another operator has seen no crash, and finds a younger container.
    again = ReconcileLoop(there.cluster, config=CONFIG)
    again.now = there.now
    started = {"running": {"startedAt": format_time(again.now)}}
    again.kubelet(status={"containerStatuses": [{"ready": True, "restartCount": 3, "state": started}]})
    await again.advance(CONFIG.healthy_seconds - 1)
    assert names(again.environment()) == [first]
    await again.advance(1)
    assert names(again.environment()) == [dying, first]


async def test_healthy_versions_are_those_that_served_alone() -> None:
    there = await long_running()
    first = there.environment()["version"]
    await deployed(there, "print('crashes')\n", crashing)
    second = await deployed(there, "print('good')\n")
    assert names(there.environment()) == [second, first]
    # The status is all that another operator has.
    again = ReconcileLoop(there.cluster, config=CONFIG)
    again.now = there.now
    await deployed(again, "print('crashes too')\n", crashing)
    assert names(again.environment()) == [second, first]
    await deployed(again, "print('one')\n")
    assert names(again.environment()) == [first], "a rollback leaves what came after"


async def test_the_version_to_roll_back_to_is_kept() -> None:
    there = await long_running()
    first = there.environment()["version"]
    second = await deployed(there, "print('good')\n")
    for number in range(4):
        await deployed(there, f"raise SystemExit({number})\n", crashing)
    kept = {version["metadata"]["name"] for version in there.cluster[r.PROJECT_VERSIONS].list()}
    assert {first, second} <= kept


async def test_a_deploy_of_a_refused_project_does_not_keep_the_outcome_before() -> None:
    there = await running()
    assert there.environment()["rollout"] == "complete"
    there.cluster.put(
        r.NAMESPACES, {**there.cluster[r.NAMESPACES].get(None, "acme"), "metadata": _unlabelled(there)}
    )
    change(there, environments=[{"name": "production", "version": "order-sync-new"}])
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[0] == "False"
    assert "rollout" not in there.environment()


def _unlabelled(there: ReconcileLoop) -> dict[str, object]:
    return {**there.cluster[r.NAMESPACES].get(None, "acme")["metadata"], "labels": {}}


def _version(there: ReconcileLoop) -> str:
    version: str = there.deployment()["spec"]["template"]["metadata"]["annotations"]["tieline.dev/version"]
    return version


async def test_a_deploy_of_a_refused_project_stops_nothing_later() -> None:
    there = await running()
    namespace = there.cluster[r.NAMESPACES].get(None, "acme")
    there.cluster.put(r.NAMESPACES, {**namespace, "metadata": _unlabelled(there)})
    change(there, environments=[{"name": "production", "version": "order-sync-new"}])
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[0] == "False"
    there.cluster.put(r.NAMESPACES, namespace)
    await there.until_quiet()
    await there.advance(3)
    assert there.environment()["deployFailure"] == "VersionNotFound"
    assert there.deployment()["spec"]["replicas"] == 1
    assert there.environment()["status"] == "running"
