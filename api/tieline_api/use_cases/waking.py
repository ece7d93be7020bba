"""Waking the environment that something was published for, where it may sleep."""

from datetime import UTC, datetime, timedelta

from tieline_api.activator.targets import target_by_id
from tieline_api.dependencies import Dependencies
from tieline_protocol.event_streams import EventStreams

_SOON = timedelta(minutes=2)
"""What is due later is found by the operator, which looks through the engine once a minute."""


async def wake(platform: Dependencies, streams: EventStreams, *, at: datetime | None = None) -> None:
    """Wakes the environment for what was stored in its streams, and is due ``at`` a time, None for now."""
    if at is not None and at - datetime.now(UTC) > _SOON:
        return
    namespace = platform.cluster.namespace_of(streams.organisation)
    if namespace is not None:
        await platform.wakes.try_to_wake(target_by_id(platform.cluster, namespace, streams.environment))
