"""Facts about an environment's pods and Deployment; no decisions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tieline_core.identity.ids import parse_time
from tieline_core.identity.names import VERSION_ANNOTATION
from tieline_operator.apply.conditions import find_condition, is_terminating
from tieline_operator.apply.plan import Object
from tieline_operator.workload.pod_template import REVISION_ANNOTATION
from tieline_protocol.exit_codes import BLOCKED

# A scheduler that is waiting for a node to be added, or for a pod to leave, gets this long.
UNSCHEDULABLE_SECONDS = 30
_FINISHED = ("Succeeded", "Failed")
_PULL_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_POD_NAME = re.compile(r'pods? "[^"]*"')
_MAX_LINES = 4000
_OUT_OF_MEMORY = "OOMKilled"
# SIGKILL: a container runtime may miss that it was for memory, and say "Error" (containerd/containerd#8180).
_KILLED = 137
# SIGTERM: in a pod that is not being deleted, the kubelet sends it when the startup or the liveness probe has failed.
_TERMINATED = 143
# Times in a pod's status are whole seconds, and the first probe comes within its period.
_PROBE_LATITUDE_SECONDS = 3
# The liveness probe fails for longer than the readiness probe before the kubelet stops a container.
_UNREADY_SECONDS = 10


@dataclass(frozen=True)
class Failure:
    """Why pods do not run, as a condition's reason and a sentence.

    The sentence is the same on each of the kubelet's attempts, so that a status does not flap.
    """

    reason: str
    message: str
    """One line, which says what is wrong: lists show no more."""
    detail: str = ""
    """Further lines, such as a traceback."""


@dataclass(frozen=True, kw_only=True)
class Pod:
    """The facts of a pod."""

    version: str
    revision: str
    created: datetime
    ready: bool
    finished: bool
    """It has ended (evicted, say) and only its record is left."""
    failure: Failure | None
    unschedulable: tuple[datetime, str] | None
    """Since when no node has room for it, and the scheduler's words."""
    started: datetime | None = None
    """When its newest container started."""
    killed: tuple[datetime, Failure] | None = None
    """When and why it was last killed, though it may serve again."""


def read_pod(obj: Object) -> Pod:
    """The facts of a pod as read from the API server."""
    metadata, status = obj["metadata"], obj.get("status", {})
    annotations = metadata.get("annotations", {})
    terminating = is_terminating(obj)
    return Pod(
        version=annotations.get(VERSION_ANNOTATION, ""),
        revision=annotations.get(REVISION_ANNOTATION, ""),
        created=parse_time(metadata["creationTimestamp"]),
        ready=not terminating and (find_condition(obj, "Ready") or {}).get("status") == "True",
        finished=status.get("phase") in _FINISHED,
        failure=None if terminating else _failure(obj),
        unschedulable=_unschedulable(obj),
        started=_started(obj),
        killed=None if terminating else _last_kill(obj),
    )


def keep_last_terminations(old: Mapping[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A pod's new state, with how its containers last ended where the kubelet has lost that since the old state.

    Kubelets collect their garbage once a minute. When that falls between the creation and the start of the container
    that comes after one that ended, they remove the latter, and ``lastState`` is empty from then on, though the pod was
    restarted (kubernetes/kubernetes#101044).
    """
    containers = _containers(new)
    lost = [
        container.get("restartCount", 0) >= 1 and _last_end(container) is None for container in containers
    ]
    if not any(lost):
        return new
    before = {container.get("name"): _last_end(container) for container in _containers(old)}
    mended = [
        {**container, "lastState": {"terminated": end}}
        if is_lost and (end := before.get(container.get("name")))
        else container
        for container, is_lost in zip(containers, lost, strict=True)
    ]
    return {**new, "status": {**new["status"], "containerStatuses": mended}}


def rollout_failure(deployment: Object | None) -> Failure | None:
    """Why a Deployment cannot make its pods, or that they did not become ready in time."""
    refused = find_condition(deployment, "ReplicaFailure") or {}
    if refused.get("status") == "True":
        detail = _POD_NAME.sub("pods", refused.get("message", ""))
        return Failure("PodsRefused", f"Pods cannot be made: {detail}")
    progress = find_condition(deployment, "Progressing") or {}
    if progress.get("status") == "False" and progress.get("reason") == "ProgressDeadlineExceeded":
        return Failure(
            "StartTimeout",
            "No pod became ready in time; look at the logs, and at the pods' events for what they wait for",
        )
    return None


def rollout_complete(deployment: Object | None, replicas: int) -> bool:
    """Whether the Deployment's controller has seen its spec and all pods are of its newest template."""
    if deployment is None:
        return False
    status = deployment.get("status", {})
    return bool(
        status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
        and status.get("updatedReplicas", 0) == replicas
        and status.get("replicas", 0) == replicas
        and status.get("readyReplicas", 0) >= replicas
    )


def deployed_version(deployment: Object | None) -> str | None:
    """The version that the Deployment's pod template names."""
    if deployment is None:
        return None
    version: str | None = (
        deployment["spec"]["template"]["metadata"].get("annotations", {}).get(VERSION_ANNOTATION)
    )
    return version


def _containers(obj: Object) -> Sequence[Mapping[str, Any]]:
    containers: Sequence[Mapping[str, Any]] = obj.get("status", {}).get("containerStatuses", [])
    return containers


def _started(obj: Object) -> datetime | None:
    running = (container.get("state", {}).get("running") or {} for container in _containers(obj))
    times = [parse_time(one["startedAt"]) for one in running if one.get("startedAt")]
    return max(times, default=None)


def _failure(obj: Object) -> Failure | None:
    for container in obj.get("status", {}).get("initContainerStatuses") or ():
        if failure := _packages_failure(container):
            return failure
    for container in _containers(obj):
        waiting = container.get("state", {}).get("waiting", {})
        reason = waiting.get("reason", "")
        if reason in _PULL_REASONS:
            return Failure("ImagePullFailed", _pull_message(container, waiting))
        if reason in _CONFIG_REASONS:
            return Failure("ContainerRefused", f"The container cannot be made: {waiting.get('message', '')}")
        if container.get("restartCount", 0) >= 1 and not container.get("ready"):
            return _crash(obj, container)
    return None


def _packages_failure(container: Mapping[str, Any]) -> Failure | None:
    """Why packages are not unpacked: the only work before the code's container."""
    waiting = container.get("state", {}).get("waiting", {})
    if waiting.get("reason", "") in _PULL_REASONS:
        return Failure("ImagePullFailed", _pull_message(container, waiting))
    ended = _last_end(container)
    if not ended or not ended.get("exitCode"):
        return None
    lines = ended.get("message", "").strip().splitlines()[-1:]
    detail = lines[0] if lines else f"unpacking them ended with exit code {ended['exitCode']}"
    return Failure("PackagesFailed", f"the packages cannot be unpacked: {detail[:_MAX_LINES]}")


def _pull_message(container: Mapping[str, Any], waiting: Mapping[str, Any]) -> str:
    # ErrImagePull and ImagePullBackOff alternate; the second quotes the first.
    detail = waiting.get("message", "").rsplit("ErrImagePull: ", 1)[-1]
    detail = "" if detail.startswith("Back-off") else f" ({detail})" if detail else ""
    return f'The image "{container.get("image", "")}" cannot be pulled; correct its name or the pull secrets{detail}'


def _crash(obj: Object, container: Mapping[str, Any]) -> Failure | None:
    ended = _last_end(container)
    if not ended:
        return None
    lines = ended.get("message", "").strip()[-_MAX_LINES:]
    if _missed_startup_probe(obj, container, ended):
        return Failure(
            "StartTimeout",
            f"The container did not become ready in time and was stopped (exit code {ended['exitCode']}, startup probe "
            "failed); look for code in main.py that blocks at import, such as an endless loop or a call without a "
            "time-out",
            lines,
        )
    if ended.get("exitCode") == BLOCKED:
        return _blocked(ended)
    if _missed_liveness_probe(obj, ended):
        return Failure(
            "Blocked",
            f"The container did not answer the liveness probe and was stopped (exit code {ended['exitCode']}): code "
            "blocked the event loop",
            lines,
        )
    if _was_killed(ended):
        kill = _kill(obj, container, ended)
        return kill if ended.get("reason") == _OUT_OF_MEMORY else Failure(kill.reason, kill.message, lines)
    if ended.get("exitCode") == _TERMINATED:
        return Failure(
            "Killed",
            f"The container was stopped (exit code {_TERMINATED}) by something other than its probes",
            lines,
        )
    said, detail = _last_words(lines)
    return Failure("Crashed", f"The code crashed with exit code {ended.get('exitCode', 0)}: {said}", detail)


def _last_words(lines: str) -> tuple[str, str]:
    """What a container said last: the line that says what is wrong, and the lines around it.

    The runtime's own message begins with the error, its file and its line (``tieline.telemetry.termination_message``).
    Of other output the last line is that of the error, as Python writes tracebacks.
    """
    if not lines:
        return "it wrote nothing", ""
    first, _, rest = lines.partition("\n\n")
    if "\n" not in first:
        return first, rest.strip()
    return lines.splitlines()[-1].strip(), lines


def _missed_startup_probe(obj: Object, container: Mapping[str, Any], ended: Mapping[str, Any]) -> bool:
    """Whether the kubelet stopped a container because its startup probe failed.

    Only an Event names the probe. The pod's status shows the same: the container was not ready in that run, and it
    lived until the probe had failed as often as it may (and, if it ignored SIGTERM, through the grace period).
    """
    if ended.get("exitCode") not in (_TERMINATED, _KILLED) or ended.get("reason") == _OUT_OF_MEMORY:
        return False
    containers = obj.get("spec", {}).get("containers", ())
    empty: Mapping[str, Any] = {}
    spec = next((one for one in containers if one.get("name") == container.get("name")), empty)
    probe, readiness = spec.get("startupProbe"), find_condition(obj, "Ready") or {}
    times = [source.get(key) for source, key in ((ended, "startedAt"), (ended, "finishedAt"))]
    since = readiness.get("lastTransitionTime")
    if not (probe and all(times) and since and readiness.get("status") == "False"):
        return False
    began, finished = (parse_time(str(text)) for text in times)
    limit = probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3)
    grace = obj["spec"].get("terminationGracePeriodSeconds", 30) if ended["exitCode"] == _KILLED else 0
    lived = (finished - began).total_seconds()
    return bool(parse_time(since) <= began and lived >= limit + grace - _PROBE_LATITUDE_SECONDS)


def _missed_liveness_probe(obj: Object, ended: Mapping[str, Any]) -> bool:
    """Whether the kubelet stopped a container that had been ready: the readiness probe failed long before its end."""
    if ended.get("exitCode") not in (_TERMINATED, _KILLED) or ended.get("reason") == _OUT_OF_MEMORY:
        return False
    readiness = find_condition(obj, "Ready") or {}
    began, since, finished = (
        parse_time(text) if text else None
        for text in (ended.get("startedAt"), readiness.get("lastTransitionTime"), ended.get("finishedAt"))
    )
    if readiness.get("status") != "False" or not (began and since and finished):
        return False
    return since > began and (finished - since).total_seconds() >= _UNREADY_SECONDS


def _blocked(ended: Mapping[str, Any]) -> Failure:
    """The runtime's own message of why it ended itself."""
    return Failure("Blocked", ended.get("message", "").strip()[-_MAX_LINES:] or "Code blocked the event loop")


def _last_end(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    ended: Mapping[str, Any] | None = container.get("state", {}).get("terminated")
    return ended or container.get("lastState", {}).get("terminated")


def _was_killed(ended: Mapping[str, Any]) -> bool:
    return ended.get("reason") == _OUT_OF_MEMORY or ended.get("exitCode") == _KILLED


def _kill(obj: Object, container: Mapping[str, Any], ended: Mapping[str, Any]) -> Failure:
    name = container.get("name")
    limits = [
        spec.get("resources", {}).get("limits", {}).get("memory")
        for spec in obj.get("spec", {}).get("containers", ())
        if spec.get("name") == name
    ]
    limit = f" of {limits[0]}" if limits and limits[0] else ""
    if ended.get("reason") != _OUT_OF_MEMORY:
        return Failure(
            "Killed",
            f"The code was killed (exit code {_KILLED}), for using more memory than its limit{limit} or for blocking "
            "the event loop; its last log lines may say where. Let it use less memory or raise "
            "runtime.resources.limits.memory, and await what takes time",
        )
    return Failure(
        "OutOfMemory",
        f"The code used more memory than its limit{limit}, and was ended; let it use less, or raise "
        "runtime.resources.limits.memory",
    )


def _last_kill(obj: Object) -> tuple[datetime, Failure] | None:
    for container in _containers(obj):
        ended = _last_end(container)
        if not ended or not ended.get("finishedAt"):
            continue
        if ended.get("exitCode") == BLOCKED:
            return parse_time(ended["finishedAt"]), _blocked(ended)
        if _was_killed(ended):
            return parse_time(ended["finishedAt"]), _kill(obj, container, ended)
    return None


def _unschedulable(obj: Object) -> tuple[datetime, str] | None:
    condition = find_condition(obj, "PodScheduled") or {}
    if condition.get("status") != "False" or condition.get("reason") != "Unschedulable":
        return None
    detail = condition.get("message", "").split("preemption:")[0].rstrip(" ,")
    return parse_time(condition["lastTransitionTime"]), detail
