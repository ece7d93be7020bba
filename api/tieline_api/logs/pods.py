"""Reading the logs of an environment's pods: all replicas, and what a container wrote before it crashed.

What is read is bounded, however much there is: LIMIT bytes in all from a page's start on (``asc``), or the
newest TAIL lines of each container (``desc``; Kubernetes reads a log forward only, so what is older than
these is reached with ``asc``).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from tieline_api.logs.lines import counted_from_the_end, split
from tieline_api.logs.paging import LogFilter, Reading
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL, VERSION_ANNOTATION
from tieline_core.kubernetes import Kube, KubeError, Unavailable
from tieline_core.kubernetes.resources import PODS
from tieline_core.objects import ObjectView

RUNTIME = "runtime"
"""The name of the container that runs a project's code."""
MAX_SOURCES = 40
LIMIT = 8 * 1024 * 1024
TAIL = 20_000
_LEAST = 256 * 1024
# Kubernetes starts a new file after 10 MiB and reads the newest alone: this is more than there can be.
_WHOLE = 32 * 1024 * 1024
_ATONCE = 4


@dataclass(frozen=True, kw_only=True)
class Source:
    """One run of one container."""

    namespace: str
    pod: str
    container: str
    run: int
    """How often the container was restarted before."""
    previous: bool
    failed: bool

    @property
    def name(self) -> str:
        """The same at any time: what is the current run now is the previous one after a crash."""
        return f"{self.pod}/{self.run:06d}"


async def read(
    kube: Kube, namespace: str, environment: str, wanted: LogFilter, *, version: str | None = None
) -> tuple[list[Reading], list[str]]:
    """What the pods of the environment with this id wrote, and warnings about what could not be read.

    ``version`` leaves out the pods of other versions. Raises Unavailable when nothing can be read.
    """
    pods = await kube.list(PODS, namespace, label_selector=f"{ENVIRONMENT_ID_LABEL}={environment}")
    chosen = [pod for pod in pods if version is None or _version(pod) == version]
    found = sources(chosen)
    kept = found[:MAX_SOURCES]
    gate = asyncio.Semaphore(_ATONCE)
    budget = max(LIMIT // max(1, len(kept)), _LEAST)

    async def one(source: Source) -> Reading | KubeError:
        async with gate:
            try:
                return await _read(kube, source, wanted, budget)
            except KubeError as error:
                return error

    answers = await asyncio.gather(*(one(source) for source in kept))
    readings = [answer for answer in answers if isinstance(answer, Reading)]
    lost = [answer for answer in answers if isinstance(answer, Unavailable)]
    if lost and not readings:
        raise lost[0]
    warnings = [
        f"the log of pod {source.pod} cannot be read right now"
        for source, answer in zip(kept, answers, strict=True)
        if isinstance(answer, Unavailable)
    ]
    if len(found) > len(kept):
        warnings.append(f"only the {MAX_SOURCES} newest of {len(found)} containers were read")
    return readings, warnings


def sources(pods: Iterable[ObjectView]) -> list[Source]:
    """The runs whose logs are kept, of the newest pods first."""
    newest = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    return [source for pod in newest for source in _runs(pod)]


def _runs(pod: ObjectView) -> list[Source]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    status = next((one for one in statuses if one["name"] == RUNTIME), None)
    if status is None:
        return []
    metadata, restarts = pod["metadata"], int(status.get("restartCount", 0))

    def run(number: int, state: ObjectView, *, previous: bool) -> Source:
        ended = state.get("terminated") or {}
        return Source(
            namespace=metadata["namespace"],
            pod=metadata["name"],
            container=RUNTIME,
            run=number,
            previous=previous,
            failed=bool(ended.get("exitCode")),
        )

    state, last = status.get("state") or {}, status.get("lastState") or {}
    if state.get("waiting"):
        # Between two runs (CrashLoopBackOff) the last one's log is the current log.
        return [run(restarts, last, previous=False)] if last.get("terminated") else []
    current = run(restarts, state, previous=False)
    return [run(restarts - 1, last, previous=True), current] if last.get("terminated") else [current]


async def _read(kube: Kube, source: Source, wanted: LogFilter, budget: int) -> Reading:
    if wanted.order == "desc":
        return await _newest(kube, source, wanted, budget)
    since = max(wanted.start, wanted.beyond[0] if wanted.beyond else "")
    while True:
        text, whole = await _text(kube, source, since=since, tail=None, limit=budget)
        lines = [*split(text, source=source.name, failed=source.failed, whole=whole)]
        # Kubernetes knows whole seconds only: a second with more than the budget must not hold the page up.
        ahead = bool(lines) and (wanted.beyond is None or lines[-1].key > wanted.beyond)
        if whole or ahead or budget >= _WHOLE:
            return Reading(lines, more=not whole)
        budget *= 4


async def _newest(kube: Kube, source: Source, wanted: LogFilter, budget: int) -> Reading:
    plain = not (wanted.search or wanted.severity or wanted.end or wanted.beyond)
    tail = wanted.first + 1 if plain else TAIL
    while True:
        text, whole = await _text(kube, source, since=wanted.start, tail=tail, limit=budget)
        if whole or tail == 1:
            lines = split(text, source=source.name, failed=source.failed, whole=whole)
            return Reading(counted_from_the_end(lines))
        # The limit cuts at the end, where the newest lines are: read fewer.
        tail = max(1, tail // 2)


async def _text(kube: Kube, source: Source, *, since: str, tail: int | None, limit: int) -> tuple[str, bool]:
    """A log's text, and whether that is all that was asked for."""
    try:
        text = await kube.logs(
            source.namespace,
            source.pod,
            container=source.container,
            previous=source.previous,
            tail_lines=tail,
            since_time=f"{since[:19]}Z" if since else None,
            limit_bytes=limit,
            timestamps=True,
        )
    except Unavailable:
        raise
    except KubeError:
        return "", True  # the pod is gone, or its container has not started
    return text, len(text.encode()) < limit


def _version(pod: ObjectView) -> str | None:
    found: str | None = (pod["metadata"].get("annotations") or {}).get(VERSION_ANNOTATION)
    return found
