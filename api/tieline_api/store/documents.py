"""JSON values that integrations keep between runs, each changed by compare-and-swap: what all stores of them share."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import orjson

from tieline_api import errors
from tieline_core.engine.state_streams import MAX_KEY_BYTES, StatePlace
from tieline_core.objects import ObjectView

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, kw_only=True)
class DocumentLimits:
    """What one place may hold."""

    keys: int
    value_bytes: int
    total_bytes: int
    """Of all values of a ConfigMap. The engine bounds what an organisation has in all."""
    forgets: bool = False
    """Whether the document that was written longest ago makes room for one too many."""


@dataclass(frozen=True, kw_only=True)
class DocumentScope:
    """Where documents with keys of their own are: an activation's state, or an environment's schedules."""

    place: StatePlace
    """In the event engine."""
    namespace: str
    name: str
    """The ConfigMap that has them where there is no event engine, and had them in earlier releases."""
    owner: ObjectView
    """The owner reference of the ConfigMap."""
    bounds: DocumentLimits

    def document(self, key: str) -> "DocumentKey":
        """One of them."""
        return DocumentKey(
            place=self.place,
            namespace=self.namespace,
            name=self.name,
            owner=self.owner,
            bounds=self.bounds,
            key=key,
        )


@dataclass(frozen=True, kw_only=True)
class DocumentKey(DocumentScope):
    """A document's place and key."""

    key: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """A value and its version."""

    text: bytes
    """The value as JSON."""
    version: str
    written_at: datetime | None = None
    expires_at: datetime | None = None

    @property
    def value(self) -> Any:
        """The value."""
        return orjson.loads(self.text)


class Documents(Protocol):
    """Reads and writes them. All of it raises ApiError, 503 where the store is away."""

    async def get(self, ref: DocumentKey) -> Document | None:
        """The document, if there is one."""

    async def put(
        self, ref: DocumentKey, value: Any, *, anyway: bool, expected: str | None, expires: int | None = None
    ) -> str:
        """Write ``value``, if what is there has the version ``expected`` (None: is nothing), or ``anyway``.

        It is deleted after ``expires`` seconds. ``value`` is what orjson writes, ``orjson.Fragment`` included.
        Returns the new version. ApiError 409 when there is another one, 413 and 422 for what is out of bounds.
        """

    async def delete(self, ref: DocumentKey, *, anyway: bool, expected: str | None) -> None:
        """Forget a document, by the same rules."""

    async def keys(self, scope: DocumentScope) -> list[str]:
        """The keys of all documents of a scope, in order."""


def check_key(key: str) -> str:
    """The key of a value of state, if it may be one. ApiError 422."""
    size = len(key.encode("utf-8", "surrogatepass"))
    parts = key.split("/")
    if (
        not 1 <= size <= MAX_KEY_BYTES
        or _CONTROL.search(key)
        or not key.isprintable()
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise errors.invalid(
            "key",
            f"must be printable text of 1 to {MAX_KEY_BYTES} bytes, whose parts between slashes are not empty, "
            '"." or ".."',
        )
    return key


def json_text(value: Any) -> bytes:
    """A value as it is stored. ApiError 422 for what nests too deep."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise errors.invalid("value", "has lists and objects in too many others: make it flatter") from None


def check_size(ref: DocumentKey, text: bytes) -> None:
    """ApiError 413 for a value that is too large."""
    if len(text) > ref.bounds.value_bytes:
        raise errors.too_large(f'The value of "{ref.key}"', limit=ref.bounds.value_bytes)


def changed() -> errors.ApiError:
    """409: there is another version than the expected one."""
    return errors.conflict("It has another version: read it again, and decide anew")
