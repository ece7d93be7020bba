"""What an organisation uses of its quotas, and refusals of what exceeds them.

The operator decides about environments and pods (``quota_grants``), for kubectl and REST alike. REST refuses a deploy
at once that would be refused there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tieline_api import errors
from tieline_api.conversion.projects import environment_item, environment_items, environment_status
from tieline_api.dependencies import Dependencies
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.http.operation import AnyCall
from tieline_api.schemas import quotas as rest
from tieline_api.traces.span_stream import PREFIX as SPANS
from tieline_core.engine.audit_streams import audit_stream_names
from tieline_core.engine.package_streams import packages_stream
from tieline_core.engine.state_streams import state_stream, state_stream_names
from tieline_core.resources.objects import ProjectObject
from tieline_core.resources.quotas import WHO_MAY_RAISE, Quotas
from tieline_protocol.event_streams import direct_stream, history_stream

StreamInfos = Mapping[str, Mapping[str, Any]]
"""What JetStream says of streams, by name."""


def require_place(call: AnyCall, project: ProjectObject, environment: str) -> None:
    """ApiError 403 where a deploy would make one more environment than the organisation may have."""
    platform = call.platform
    found = platform.cluster.quotas(call.namespace, platform.settings.quotas)
    if environment_item(project, environment).get("version") is not None:
        return
    if found.problem:
        raise errors.quota_exceeded(f"The environment cannot be deployed: {found.problem}")
    quota = found.quotas.environments
    if quota is None:
        return
    used = environments_in_use(platform.cluster.projects.list(call.namespace))
    if used >= quota:
        raise errors.quota_exceeded(
            f"The organisation has {used} environments of {quota} (quota environments): delete one that you do not "
            f"need, or {WHO_MAY_RAISE}"
        )


async def usage(call: AnyCall) -> rest.QuotaList:
    """All quotas of the call's organisation, with what is used."""
    platform, organisation = call.platform, call.organisation.id
    found = platform.cluster.quotas(call.namespace, platform.settings.quotas)
    projects = platform.cluster.projects.list(call.namespace)
    shown = platform.cluster.environments.list(call.namespace)
    try:
        streams: StreamInfos | None = await _streams(platform, organisation)
        events: int | None = await platform.event_quotas.used(organisation)
        requests: int | None = await platform.rate_quotas.used(organisation)
    except EngineUnavailableError:
        streams = events = requests = None
    stored = _stored(streams, organisation) if streams is not None else {}
    promised = sum(map(_promised, streams.values())) if streams is not None else 0
    used: dict[rest.QuotaName, int | None] = {
        "environments": environments_in_use(projects),
        "replicas": sum((one.get("status") or {}).get("replicas", 0) for one in shown),
        "engineStorage": None if streams is None else promised + sum(_engine_bytes(projects)),
        "stateStorage": stored.get("state"),
        "historyStorage": stored.get("history"),
        "eventsPerSecond": events,
        "requestsPerSecond": requests,
    }
    return rest.QuotaList(items=list(_items(found.quotas, used)), problem=found.problem or None)


def environments_in_use(projects: Sequence[ProjectObject]) -> int:
    """How many environments have a version; drafts have none."""
    return sum(item.get("version") is not None for project in projects for item in environment_items(project))


def _engine_bytes(projects: Sequence[ProjectObject]) -> Iterator[int]:
    for project in projects:
        for item in environment_items(project):
            yield environment_status(project, item["name"]).get("engineBytes", 0)


async def _streams(platform: Dependencies, organisation: str) -> StreamInfos:
    names = (
        history_stream(organisation),
        direct_stream(organisation),
        *state_stream_names(organisation),
        *audit_stream_names(organisation),
        packages_stream(organisation),
        f"{SPANS}_{organisation}",
    )
    found = {name: await platform.engine.stream_info(name) for name in names}
    return {name: info for name, info in found.items() if info is not None}


def _stored(streams: StreamInfos, organisation: str) -> Mapping[str, int]:
    bytes_of = {name: int(info["state"]["bytes"]) for name, info in streams.items()}
    history = (history_stream(organisation), direct_stream(organisation))
    return {
        "state": bytes_of.get(state_stream(organisation), 0),
        "history": sum(bytes_of.get(name, 0) for name in history),
    }


def _promised(info: Mapping[str, Any]) -> int:
    """What a stream may take; what it takes, where it has no limit."""
    return max(int(info["config"].get("max_bytes", 0)), int(info["state"]["bytes"]))


_UNITS: Mapping[rest.QuotaName, Any] = {
    "environments": "environments",
    "replicas": "pods",
    "engineStorage": "bytes",
    "stateStorage": "bytes",
    "historyStorage": "bytes",
    "eventsPerSecond": "events",
    "requestsPerSecond": "requests",
}


def _items(quotas: Quotas, used: Mapping[rest.QuotaName, int | None]) -> Iterator[rest.Quota]:
    limits = quotas.model_dump(by_alias=True)
    for name, unit in _UNITS.items():
        limit, taken = limits[name], used[name]
        left = None if limit is None or taken is None else max(0, limit - taken)
        yield rest.Quota(name=name, unit=unit, limit=limit, used=taken, left=left)
