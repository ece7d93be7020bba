"""ETags from resource versions.

``"812"`` is an object in its resourceVersion 812. An answer that tells of other objects too (a connection
of its system) has theirs after a dash: ``"812-790"``. If-Match is about the object itself, so it compares
what comes before the dash.
"""

from collections.abc import Iterator, Mapping
from typing import Any


def etag(obj: Mapping[str, Any], *others: Mapping[str, Any] | None) -> str:
    """The ETag of an answer about ``obj`` that also shows parts of ``others``."""
    versions = [obj["metadata"]["resourceVersion"]]
    versions += [other["metadata"]["resourceVersion"] for other in others if other is not None]
    return f'"{"-".join(versions)}"'


def matches(condition: str, resource_version: str) -> bool:
    """Whether an If-Match header names the object in this resource version."""
    return any(tag == "*" or tag.partition("-")[0] == resource_version for tag in _tags(condition))


def unchanged(condition: str, current: str) -> bool:
    """Whether an If-None-Match header names the answer with the ETag ``current``."""
    return any(tag == "*" or f'"{tag}"' == current for tag in _tags(condition))


def _tags(header: str) -> Iterator[str]:
    for part in header.split(","):
        yield part.strip().removeprefix("W/").strip('"')
