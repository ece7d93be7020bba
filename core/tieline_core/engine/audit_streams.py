"""Where the engine keeps who changed what: two streams of each organisation, in the platform's account.

``audit_<organisation>`` has what people, service accounts, API keys and agents changed. ``access_<organisation>`` has
what end users and callers without valid credentials did, and requests through connections: there can be many of them,
and they push out nobody's changes. Each has one subject, such as ``audit.<organisation>``, and a message a record.
Messages can be neither deleted nor purged: they go by age and size alone. Pods have no way to these streams: the API
writes and reads them.
"""

from collections.abc import Sequence
from enum import StrEnum

from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

from tieline_core.engine.streams import StreamLimits, StreamOwner, ensure_numbered

MAX_RECORD_BYTES = 16 << 10
"""Of a record."""
_HEADERS_BYTES = 1 << 10
_DUPLICATES_SECONDS = 120.0
"""A record whose acknowledgement was lost is published again in this time."""


class AuditPart(StrEnum):
    """One of the two streams."""

    CHANGES = "changes"
    ACCESS = "access"


_NAMES = {AuditPart.CHANGES: "audit", AuditPart.ACCESS: "access"}


def audit_stream(organisation: str, part: AuditPart = AuditPart.CHANGES) -> str:
    """The name of a stream with an organisation's audit records."""
    return f"{_NAMES[part]}_{organisation}"


def audit_subject(organisation: str, part: AuditPart = AuditPart.CHANGES) -> str:
    """The subject of its records."""
    return f"{_NAMES[part]}.{organisation}"


def audit_stream_names(organisation: str) -> tuple[str, str]:
    """Both of them."""
    return audit_stream(organisation, AuditPart.CHANGES), audit_stream(organisation, AuditPart.ACCESS)


def audit_streams(organisation: str, limits: StreamLimits) -> Sequence[StreamConfig]:
    """The streams of an organisation's audit records, each with half of the bytes. A full one drops the oldest."""
    return tuple(
        StreamConfig(
            name=audit_stream(organisation, part),
            subjects=[audit_subject(organisation, part)],
            max_msg_size=MAX_RECORD_BYTES + _HEADERS_BYTES,
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.OLD,
            max_bytes=max(1, limits.audit_bytes // len(AuditPart)),
            max_age=limits.audit_age.total_seconds(),
            duplicate_window=_DUPLICATES_SECONDS,
            deny_delete=True,
            deny_purge=True,
        )
        for part in AuditPart
    )


async def ensure_audit(
    jetstream: JetStreamContext,
    organisation: str,
    limits: StreamLimits,
    owner: StreamOwner | None = None,
    *,
    settings: str = "",
) -> None:
    """Makes the streams of an organisation's audit records, or updates them.

    Raises as ``streams.ensure_environment`` does.
    """
    # A record is known by its number.
    configs = audit_streams(organisation, limits)
    await ensure_numbered(jetstream, configs, limits, owner, settings=settings)
