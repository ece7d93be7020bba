"""Where the engine keeps who changed what: a stream of each organisation, in the platform's account.

``audit_<organisation>`` has one subject, ``audit.<organisation>``, and a message for each record. Messages can be
neither deleted nor purged: they go by age and size alone. Pods have no way to this stream: the API writes and reads it.
"""

from collections.abc import Sequence
from dataclasses import replace

from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

from tieline_core.engine.streams import StreamLimits, StreamOwner, ensure_stream, first_number

MAX_RECORD_BYTES = 16 << 10
"""Of a record."""
_AUDIT = "audit"
_HEADERS_BYTES = 1 << 10
_DUPLICATES_SECONDS = 120.0
"""A record whose acknowledgement was lost is published again in this time."""


def audit_stream(organisation: str) -> str:
    """The name of the stream with an organisation's audit records."""
    return f"{_AUDIT}_{organisation}"


def audit_subject(organisation: str) -> str:
    """The subject of an organisation's audit records."""
    return f"{_AUDIT}.{organisation}"


def audit_streams(organisation: str, limits: StreamLimits) -> Sequence[StreamConfig]:
    """The stream of an organisation's audit records. A full one drops the oldest."""
    return (
        StreamConfig(
            name=audit_stream(organisation),
            subjects=[audit_subject(organisation)],
            max_msg_size=MAX_RECORD_BYTES + _HEADERS_BYTES,
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.OLD,
            max_bytes=limits.audit_bytes,
            max_age=limits.audit_age.total_seconds(),
            duplicate_window=_DUPLICATES_SECONDS,
            deny_delete=True,
            deny_purge=True,
        ),
    )


async def ensure_audit(
    jetstream: JetStreamContext,
    organisation: str,
    limits: StreamLimits,
    owner: StreamOwner | None = None,
    *,
    settings: str = "",
) -> None:
    """Makes the stream of an organisation's audit records, or updates it.

    Raises as ``streams.ensure_environment`` does.
    """
    for config in audit_streams(organisation, limits):
        # A record is known by its number: a new stream must not have those of an earlier one.
        first = await first_number(jetstream, str(config.name))
        await ensure_stream(jetstream, replace(config, first_seq=first), limits, owner, settings=settings)
