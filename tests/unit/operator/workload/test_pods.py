"""What pods tell: the sentence a user reads must be the same on each of the kubelet's attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.kubernetes.fake_api_server import FakeApiServer
from tests.unit.operator.objects import NAMESPACE, NOW
from tests.unit.operator.reconcile_loop import crashed, no_image
from tieline_core.kubernetes.resources import PODS
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.transforms import transform_of
from tieline_operator.workload.pods import Failure, Pod, keep_last_terminations, read_pod
from tieline_protocol.exit_codes import BLOCKED


def read(status: dict[str, Any], **metadata: Any) -> Pod:
    return read_pod({"metadata": {"creationTimestamp": NOW.isoformat(), **metadata}, "status": status})


def test_a_crash_reads_the_same_while_waiting_and_while_running_again() -> None:
    assert read(crashed(waiting=True)).failure == read(crashed(waiting=False)).failure


TRACE = "Traceback (most recent call last):\n  File \"/code/main.py\", line 4\nKeyError: 'DATABASE_URL'"


@pytest.mark.parametrize(
    ("said", "line", "detail"),
    [
        (f"main.py:4: KeyError: 'DATABASE_URL'\n\n{TRACE}", "main.py:4: KeyError: 'DATABASE_URL'", TRACE),
        ("The project has no main.py", "The project has no main.py", ""),
        (TRACE, "KeyError: 'DATABASE_URL'", TRACE),
        ("", "it wrote nothing", ""),
    ],
    ids=["message of the runtime", "one line", "last lines of a log", "nothing"],
)
def test_a_crash_names_the_error_in_its_first_line(said: str, line: str, detail: str) -> None:
    failure = read(crashed(said)).failure
    assert failure
    assert (failure.message, failure.detail) == (f"The code crashed with exit code 1: {line}", detail)


def test_the_first_end_of_a_container_is_no_failure_yet() -> None:
    status = crashed()
    status["containerStatuses"][0]["restartCount"] = 0
    assert read(status).failure is None


def stopped_by_the_kubelet(exit_code: int, lived: float, *, was_ready: bool = False) -> Pod:
    """A pod whose container was stopped after ``lived`` seconds, and is being restarted."""
    status = crashed("Loading main.py", exit_code=exit_code)
    container = status["containerStatuses"][0]
    container["name"] = "runtime"
    container["lastState"]["terminated"].update(
        startedAt=NOW.isoformat(), finishedAt=(NOW + timedelta(seconds=lived)).isoformat()
    )
    since = NOW + timedelta(seconds=5 if was_ready else -2)
    status["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": since.isoformat()}]
    probe = {"periodSeconds": 1, "failureThreshold": 60}
    spec = {"terminationGracePeriodSeconds": 90, "containers": [{"name": "runtime", "startupProbe": probe}]}
    obj = {"metadata": {"creationTimestamp": NOW.isoformat()}, "status": status, "spec": spec}
    return read_pod(transform_of(PODS)(obj))


@pytest.mark.parametrize(("exit_code", "lived"), [(143, 60), (143, 121), (137, 150)])
def test_code_that_blocks_at_import_is_reported_as_not_ready_in_time(exit_code: int, lived: float) -> None:
    failure = stopped_by_the_kubelet(exit_code, lived).failure
    assert failure
    assert failure.reason == "StartTimeout"
    assert "blocks at import" in failure.message
    assert "Loading main.py" in failure.detail


@pytest.mark.parametrize(
    ("exit_code", "lived", "was_ready"),
    [(143, 20, False), (143, 12, True), (137, 70, False), (137, 12, True)],
)
def test_what_is_stopped_for_another_reason_is_reported_as_killed(
    exit_code: int, lived: float, was_ready: bool
) -> None:
    failure = stopped_by_the_kubelet(exit_code, lived, was_ready=was_ready).failure
    assert failure
    assert failure.reason == "Killed"


@pytest.mark.parametrize(("exit_code", "lived"), [(143, 80), (137, 170)])
def test_a_missed_liveness_probe_is_named_and_not_memory(exit_code: int, lived: float) -> None:
    failure = stopped_by_the_kubelet(exit_code, lived, was_ready=True).failure
    assert failure
    assert failure.reason == "Blocked"
    assert "liveness probe" in failure.message
    assert "memory" not in failure.message


@pytest.mark.parametrize("ready", [False, True], ids=["not serving yet", "serving again"])
def test_blocked_code_is_reported_with_its_line(ready: bool) -> None:
    says = "Event slow blocked the event loop for 10 seconds at main.py:7 in slow"
    status = crashed(says, exit_code=BLOCKED)
    container = status["containerStatuses"][0]
    container["ready"] = ready
    container["lastState"]["terminated"]["finishedAt"] = NOW.isoformat()
    found = read(status)
    failure = found.killed[1] if ready and found.killed else found.failure
    assert failure == Failure("Blocked", says)


def test_a_pod_that_became_ready_again_after_a_crash_has_not_failed() -> None:
    status = crashed(waiting=False)
    status["containerStatuses"][0]["ready"] = True
    assert read(status).failure is None


def test_an_image_that_cannot_be_pulled_reads_the_same_on_both_of_the_kubelets_reasons() -> None:
    first = no_image("ErrImagePull", "rpc error: not found")
    second = no_image(
        "ImagePullBackOff", 'Back-off pulling image "nowhere/x:1": ErrImagePull: rpc error: not found'
    )
    assert read(first).failure == read(second).failure


def test_a_pod_that_ran_out_of_memory_says_which_limit_to_raise() -> None:
    status = crashed()
    status["containerStatuses"][0]["lastState"]["terminated"]["reason"] = "OOMKilled"
    failure = read(status).failure
    assert failure
    assert "runtime.resources.limits.memory" in failure.message
    status["containerStatuses"][0]["name"] = "runtime"
    spec = {"containers": [{"name": "runtime", "resources": {"limits": {"memory": "96Mi"}}}]}
    named = read_pod(
        {"metadata": {"creationTimestamp": NOW.isoformat()}, "status": status, "spec": spec}
    ).failure
    assert named
    assert "limit of 96Mi" in named.message


@pytest.mark.parametrize("ready", [False, True], ids=["not serving yet", "serving again"])
def test_a_kill_whose_cause_the_container_runtime_missed_is_told_with_its_usual_cause(ready: bool) -> None:
    status = crashed()
    container = status["containerStatuses"][0]
    container["ready"] = ready
    ended = container["lastState"]["terminated"]
    ended.update(reason="Error", exitCode=137, finishedAt=NOW.isoformat())
    found = read(status)
    failure = found.killed[1] if ready and found.killed else found.failure
    assert failure
    assert failure.reason == "Killed"
    assert ready or ended["message"].strip() in failure.detail, "its last lines are still told"
    assert "runtime.resources.limits.memory" in failure.message


def test_a_kill_is_known_at_once_and_not_only_when_the_next_run_has_begun() -> None:
    status = _restarting({"terminated": _OUT_OF_MEMORY}, {}, restarts=0)
    status["containerStatuses"][0]["ready"] = False
    found = read(status)
    assert found.failure is None, "the first end of a container is no failure yet"
    assert found.killed
    assert found.killed[1].reason == "OutOfMemory"


def test_a_pod_that_is_being_deleted_serves_nothing() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert read(ready).ready
    assert not read(ready, deletionTimestamp=NOW.isoformat()).ready


def test_the_schedulers_words_are_told_without_its_talk_of_preemption() -> None:
    told = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes"
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": told,
        "lastTransitionTime": NOW.isoformat(),
    }
    since, words = read({"conditions": [condition]}).unschedulable or (None, "")
    assert since == NOW
    assert words == "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"


def _restarting(state: dict[str, Any], last: dict[str, Any], restarts: int = 1) -> dict[str, Any]:
    container = {
        "name": "runtime",
        "restartCount": restarts,
        "ready": True,
        "state": state,
        "lastState": last,
    }
    return {"containerStatuses": [container]}


_OUT_OF_MEMORY = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": NOW.isoformat()}


async def test_a_kill_is_told_though_the_kubelets_garbage_collection_took_its_record_away() -> None:
    """kubernetes/kubernetes#101044: the pod says that it ended, and then nothing of it but a count."""
    async with FakeApiServer.running(PODS) as server, server.client() as kube:
        pods = ClusterCache.build(kube, [NAMESPACE], NAMESPACE)[PODS]
        (cache,) = pods.informers
        server.put("orders", NAMESPACE, status=_restarting({"running": {}}, {}, restarts=0))
        await cache.start()
        try:
            await cache.synced()
            ended = _restarting({"terminated": _OUT_OF_MEMORY}, {}, restarts=0)
            for status in (ended, _restarting({"running": {}}, {}), _restarting({"running": {}}, {})):
                last = server.put("orders", NAMESPACE, status=status)
            assert await cache.reached(last["metadata"]["resourceVersion"])
        finally:
            await cache.stop()
        found = pods.get(NAMESPACE, "orders")
    assert found
    killed = read_pod({**found, "metadata": {"creationTimestamp": NOW.isoformat()}}).killed
    assert killed
    assert killed[1].reason == "OutOfMemory"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(_restarting({"terminated": _OUT_OF_MEMORY}, {}, restarts=0), {}, id="no containers yet"),
        pytest.param({}, _restarting({"running": {}}, {}), id="nothing known before"),
        pytest.param(
            _restarting({"terminated": _OUT_OF_MEMORY}, {}, restarts=0),
            _restarting({"running": {}}, {"terminated": {"exitCode": 3}}),
            id="the kubelet still knows",
        ),
        pytest.param(
            _restarting({"terminated": _OUT_OF_MEMORY}, {}, restarts=0),
            _restarting({"running": {}}, {}, restarts=0),
            id="not restarted",
        ),
    ],
)
def test_what_a_pod_says_of_its_containers_ends_stays_as_it_is(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert keep_last_terminations({"status": old}, {"status": new}) == {"status": new}
