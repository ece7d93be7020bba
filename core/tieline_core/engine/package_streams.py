"""Where the engine keeps installed packages: a stream of each organisation, in the platform's account.

``packages_<organisation>`` has one message a subject:

- ``packages.<organisation>.<key>.entry`` says that the packages of a key are complete, and what they are;
- ``packages.<organisation>.<key>.<upload>.<n>`` is a part of the archive.

Pods have no way to this stream: the API reads and writes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import orjson
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

from tieline_core.engine.state_reading import subjects_of
from tieline_core.engine.streams import NO_DUPLICATES, StreamLimits, StreamOwner, ensure_stream
from tieline_engine.client import answer_status

_PACKAGES = "packages"
_ENTRY = "entry"
_REQUEST_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class PackageEntry:
    """The packages of a key."""

    digest: str
    """SHA-256 of the archive, in hexadecimal."""
    size: int
    """Bytes of the archive."""
    upload: str
    """Which parts they are."""
    parts: int

    def encoded(self) -> bytes:
        """The entry as a message."""
        return orjson.dumps(asdict(self))

    @classmethod
    def decoded(cls, data: bytes) -> Self | None:
        """The entry in a message; None where it cannot be read."""
        try:
            found: Mapping[str, Any] = orjson.loads(data)
            return cls(
                digest=str(found["digest"]),
                size=int(found["size"]),
                upload=str(found["upload"]),
                parts=int(found["parts"]),
            )
        except (ValueError, KeyError, TypeError):
            return None


def packages_stream(organisation: str) -> str:
    """The name of the stream with an organisation's packages."""
    return f"{_PACKAGES}_{organisation}"


def entry_subject(organisation: str, key: str) -> str:
    """The subject of a key's entry."""
    return f"{_PACKAGES}.{organisation}.{key}.{_ENTRY}"


def part_subject(organisation: str, key: str, upload: str, number: int | str) -> str:
    """The subject of a part; ``*`` for all of an upload."""
    return f"{_PACKAGES}.{organisation}.{key}.{upload}.{number}"


def key_of_subject(subject: str) -> str | None:
    """The key that a subject belongs to."""
    parts = subject.split(".")
    return parts[2] if len(parts) > 3 and parts[0] == _PACKAGES else None


def upload_of_subject(subject: str) -> str | None:
    """The upload that a part belongs to; None for an entry."""
    parts = subject.split(".")
    return parts[3] if len(parts) == 5 and parts[0] == _PACKAGES else None


def package_streams(organisation: str, limits: StreamLimits) -> Sequence[StreamConfig]:
    """The stream of an organisation's packages. A full one refuses what is new."""
    return (
        StreamConfig(
            name=packages_stream(organisation),
            subjects=[f"{_PACKAGES}.{organisation}.>"],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.NEW,
            max_msgs_per_subject=1,
            max_bytes=limits.packages_bytes,
            duplicate_window=NO_DUPLICATES.total_seconds(),
        ),
    )


async def ensure_packages(
    jetstream: JetStreamContext,
    organisation: str,
    limits: StreamLimits,
    owner: StreamOwner | None = None,
    *,
    settings: str = "",
) -> None:
    """Makes the stream of an organisation's packages, or updates it. Raises as ``streams.ensure_environment``."""
    for config in package_streams(organisation, limits):
        await ensure_stream(jetstream, config, limits, owner, settings=settings)


async def stored_packages(client: Client, organisation: str) -> dict[str, PackageEntry]:
    """The complete packages of an organisation by their keys; none where there is no stream.

    ``client`` has all rights in the platform's account. Raises EngineAnswerError and the errors of nats-py.
    """
    stream, found = packages_stream(organisation), {}
    for subject in await subjects_of(client, stream, entry_subject(organisation, "*")):
        answer = await client.request(f"$JS.API.DIRECT.GET.{stream}.{subject}", b"", timeout=_REQUEST_SECONDS)
        key = key_of_subject(subject)
        entry = PackageEntry.decoded(answer.data) if answer_status(answer) is None else None
        if key and entry:
            found[key] = entry
    return found
