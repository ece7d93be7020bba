"""Packages of a lock: a Job installs them, and a version is rolled out once they are stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.operator.objects import NAMESPACE, project
from tests.unit.operator.project_fixtures import change, reconciling
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop
from tieline_core.engine.package_streams import PackageEntry
from tieline_core.kubernetes import resources as r
from tieline_operator.config import Config
from tieline_operator.workload.packages import last_message
from tieline_protocol.package_lock import lock_digest
from tieline_protocol.packages import package_key

WITH_ENGINE: Config = CONFIG.model_copy(
    update={
        "packages_architecture": "amd64",
        "packages_index_url": "https://pypi.example/simple",
        "packages_index_secret": "index",
        "packages_ca": "-----BEGIN CERTIFICATE-----",
    }
)
FIRST = f"six==1.17.0 --hash=sha256:{'a' * 64}\n"
SECOND = f"six==1.18.0 --hash=sha256:{'b' * 64}\n"


def files(lock: str | None, code: str = "") -> dict[str, Any]:
    contents = {"main.py": code, **({"requirements.txt": lock} if lock is not None else {})}
    return {"files": [{"filename": name, "content": content} for name, content in contents.items()]}


def key_of(lock: str) -> str:
    return package_key(lock_digest(lock.encode()) or "", architecture="amd64")


def stored(there: ReconcileLoop, lock: str, digest: str = "d" * 64) -> None:
    entry = PackageEntry(digest=digest, size=10, upload="u", parts=1)
    there.package_entries = {**(there.package_entries or {}), key_of(lock): entry}


def jobs(there: ReconcileLoop) -> list[Any]:
    return list(there.cluster[r.JOBS].list(NAMESPACE))


def ended(there: ReconcileLoop, how: str, message: str = "") -> None:
    """The Job's controller says how it ended, and the kubelet why."""
    for job in jobs(there):
        name = job["metadata"]["name"]
        there.cluster.edited(r.JOBS, name)["status"] = {"conditions": [{"type": how, "status": "True"}]}
        failed_pod(there, name, message)


def failed_pod(there: ReconcileLoop, job: str, message: str) -> None:
    labels = jobs(there)[0]["spec"]["template"]["metadata"]["labels"]
    state = {"terminated": {"exitCode": 3, "message": message}}
    metadata = {
        "name": f"{job}-x",
        "namespace": NAMESPACE,
        "uid": job,
        "labels": {**labels, "batch.kubernetes.io/job-name": job},
        "annotations": {},
        "creationTimestamp": there.now.isoformat(),
    }
    status = {"phase": "Failed", "containerStatuses": [{"name": "install", "state": state}]}
    there.cluster.put(r.PODS, {"metadata": metadata, "status": status})


def without_jobs(there: ReconcileLoop) -> None:
    """Kubernetes removes Jobs that have ended, and their pods."""
    for resource in (r.JOBS, r.PODS):
        for where, name in list(there.cluster.objects[resource]):
            if "packages" in name:
                del there.cluster.objects[resource][where, name]


async def waiting(lock: str = FIRST) -> ReconcileLoop:
    there = reconciling(project(source=files(lock)), config=WITH_ENGINE)
    await there.until_quiet()
    return there


async def serving(lock: str = FIRST) -> ReconcileLoop:
    there = await waiting(lock)
    stored(there, lock)
    await there.until_quiet()
    there.kubelet()
    without_jobs(there)
    await there.until_quiet()
    assert there.environment()["status"] == "running"
    return there


async def test_code_without_packages_has_no_job_and_pods_as_before() -> None:
    for lock in (None, "# none\n"):
        there = reconciling(project(source=files(lock)), config=WITH_ENGINE)
        await there.until_quiet()
        pod = there.deployment()["spec"]["template"]
        assert "initContainers" not in pod["spec"]
        assert "tieline.dev/packages" not in pod["metadata"]["annotations"]
        assert jobs(there) == []
        assert len(there.cluster[r.SERVICE_ACCOUNTS].list(NAMESPACE)) == 1


async def test_a_version_waits_for_its_packages_and_says_so() -> None:
    there = await waiting()
    assert there.deployment() is None
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("Unknown", "Starting")
    assert "packages of version" in message
    assert "being installed" in message
    (job,) = jobs(there)
    assert job["metadata"]["annotations"]["tieline.dev/packages-key"] == key_of(FIRST)


async def test_the_job_has_no_secret_but_that_of_the_index_and_no_token_of_kubernetes() -> None:
    there = await waiting()
    pod = jobs(there)[0]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    kinds = [next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]]
    assert sorted(kinds) == ["configMap", "emptyDir", "projected", "secret"]
    assert [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v] == ["index"]
    (source,) = [source for v in pod["volumes"] for source in v.get("projected", {}).get("sources", [])]
    assert source["serviceAccountToken"]["audience"] == "tieline"
    (container,) = pod["containers"]
    (authorities,) = [one["value"] for one in container["env"] if one["name"] == "TIELINE_INDEX_CA"]
    assert authorities == WITH_ENGINE.packages_ca
    assert container["image"] == "runtime:1"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["restartPolicy"] == "Never"
    environments = {
        account["metadata"]["name"] for account in there.cluster[r.SERVICE_ACCOUNTS].list(NAMESPACE)
    }
    assert pod["serviceAccountName"] in environments
    assert len(environments) == 2, "the Job's identity is not that of the code"


async def test_only_the_jobs_pods_are_in_their_policy_and_nobody_may_connect_to_them() -> None:
    there = await waiting()
    labels = jobs(there)[0]["spec"]["template"]["metadata"]["labels"]
    policies = {
        policy["metadata"]["name"]: policy["spec"]
        for policy in there.cluster[r.NETWORK_POLICIES].list(NAMESPACE)
    }
    applying = [
        name
        for name, policy in policies.items()
        if policy["podSelector"]["matchLabels"].items() <= labels.items()
    ]
    assert len(policies) == 2
    assert [policies[name]["ingress"] for name in applying] == [[]]
    (service,) = there.cluster[r.SERVICES].list(NAMESPACE)
    assert not service["spec"]["selector"].items() <= labels.items(), (
        "the Service sends no request to the Job"
    )


async def test_stored_packages_are_rolled_out_by_their_digest() -> None:
    there = await serving()
    template = there.deployment()["spec"]["template"]
    (unpack,) = template["spec"]["initContainers"]
    env = {item["name"]: item["value"] for item in unpack["env"]}
    assert env["TIELINE_PACKAGES_KEY"] == key_of(FIRST)
    assert env["TIELINE_PACKAGES_DIGEST"] == "d" * 64
    (runtime,) = template["spec"]["containers"]
    (mount,) = [one for one in runtime["volumeMounts"] if one["name"] == "packages"]
    assert mount["readOnly"] is True
    assert {"name": "TIELINE_PACKAGES_DIR", "value": "/app/packages"} in runtime["env"]
    assert template["spec"]["nodeSelector"] == {"kubernetes.io/arch": "amd64"}


async def test_packages_that_are_stored_already_need_no_job() -> None:
    there = reconciling(project(source=files(FIRST)), config=WITH_ENGINE)
    stored(there, FIRST)
    await there.until_quiet()
    assert jobs(there) == []
    assert there.deployment() is not None


async def test_other_code_with_the_same_lock_installs_nothing() -> None:
    there = await serving()
    change(there, source=files(FIRST, code="x = 1\n"))
    await there.until_quiet()
    assert jobs(there) == []
    assert there.deployment()["spec"]["template"]["spec"]["initContainers"]


async def test_the_old_version_serves_while_the_packages_of_the_next_cannot_be_installed() -> None:
    there = await serving()
    before = there.deployment()
    change(there, source=files(SECOND))
    await there.until_quiet()
    (job,) = jobs(there)
    failed_pod(there, job["metadata"]["name"], "the package index cannot be reached: no route")
    await there.until_quiet()
    status, _, message = there.ready(r.PROJECTS, "order-sync")
    assert status == "Unknown"
    assert "the last try failed: the package index cannot be reached" in message
    ended(there, "Failed", "Retrying\nthe package index cannot be reached: no route")
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "PackagesFailed")
    assert "the package index cannot be reached: no route; the platform tries again" in message
    assert "keeps serving" in message
    assert there.deployment() == before
    assert there.environment()["status"] == "running"
    assert there.environment()["deployFailure"] == "PackagesFailed"


async def test_a_job_that_failed_is_made_again_once_kubernetes_has_removed_it() -> None:
    there = await waiting()
    (job,) = jobs(there)
    assert 0 < job["spec"]["ttlSecondsAfterFinished"] <= 600
    ended(there, "Failed", "no route")
    await there.until_quiet()
    assert len(jobs(there)) == 1
    assert there.environment()["status"] == "error"
    without_jobs(there)
    await there.until_quiet()
    assert len(jobs(there)) == 1
    stored(there, FIRST)
    await there.until_quiet()
    assert there.deployment() is not None


async def test_a_job_that_has_ended_well_has_the_packages_read_again() -> None:
    there = await waiting()
    assert there.packages_asked == 0
    ended(there, "Complete")
    await there.once(r.PROJECTS, "order-sync")
    assert there.packages_asked > 0
    assert there.requeue_after is not None
    assert there.requeue_after < 60


async def test_while_the_engine_is_away_nothing_changes_for_what_runs() -> None:
    there = await serving()
    before = there.deployment()
    there.package_entries = None
    await there.until_quiet()
    assert there.deployment() == before
    assert there.ready(r.PROJECTS, "order-sync")[0] == "True"
    change(there, source=files(SECOND))
    await there.until_quiet()
    assert jobs(there) == []
    assert "event engine" in there.ready(r.PROJECTS, "order-sync")[2]
    assert there.deployment() == before


async def test_packages_that_the_engine_has_lost_are_installed_again_without_replacing_pods() -> None:
    there = await serving()
    before = there.deployment()
    there.package_entries = {}
    await there.until_quiet()
    (job,) = jobs(there)
    assert job["metadata"]["annotations"]["tieline.dev/packages-key"] == key_of(FIRST)
    assert there.deployment() == before
    assert there.ready(r.PROJECTS, "order-sync")[0] == "True"


async def test_what_jobs_needed_goes_with_the_last_version_that_needs_packages() -> None:
    there = await serving()
    change(there, source=files(None))
    await there.until_quiet()
    assert len(there.cluster[r.SERVICE_ACCOUNTS].list(NAMESPACE)) == 1
    assert len(there.cluster[r.NETWORK_POLICIES].list(NAMESPACE)) == 1


async def test_two_organisations_and_environments_have_jobs_of_their_own() -> None:
    environments = [{"name": name, "version": "latest"} for name in ("production", "staging")]
    there = reconciling(project(source=files(FIRST), environments=environments), config=WITH_ENGINE)
    await there.until_quiet()
    names = {job["metadata"]["name"] for job in jobs(there)}
    accounts = {job["spec"]["template"]["spec"]["serviceAccountName"] for job in jobs(there)}
    assert (len(names), len(accounts)) == (2, 2)


def test_the_key_differs_by_lock_and_architecture() -> None:
    one = PackageEntry(digest="d", size=1, upload="u", parts=1)
    assert PackageEntry.decoded(one.encoded()) == one
    assert PackageEntry.decoded(b"nothing") is None
    assert PackageEntry.decoded(replace(one, size=2).encoded()) != one
    keys = {package_key(lock, architecture=arch) for lock in ("a", "b") for arch in ("amd64", "arm64")}
    assert len(keys) == 4


async def test_packages_that_a_pod_cannot_unpack_are_told_with_its_last_line() -> None:
    there = await serving()
    change(there, source=files(FIRST, code="x = 1\n"))
    await there.until_quiet()
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    ended = {"terminated": {"exitCode": 1, "message": "Trying\nthe API answers 404: not stored"}}
    init = {"name": "packages", "state": state, "lastState": ended, "restartCount": 2, "ready": False}
    there.kubelet(ready=False, status={"initContainerStatuses": [init]})
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "PackagesFailed")
    assert "the packages cannot be unpacked: the API answers 404: not stored" in message


def test_a_job_that_needs_more_disk_than_it_may_is_told_as_that() -> None:
    message = 'Usage of EmptyDir volume "work" exceeds the limit "2304Mi".'
    ended_by_kubelet = {"name": "install", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
    pod = {
        "metadata": {"name": "job-abcde", "creationTimestamp": "2026-11-25T10:00:00Z"},
        "status": {"reason": "Evicted", "message": message, "containerStatuses": [ended_by_kubelet]},
    }
    assert last_message([pod]) == f"the Job's pod was evicted: {message}"
