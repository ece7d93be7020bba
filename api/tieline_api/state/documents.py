"""JSON values that integrations keep between runs: messages in the event engine, whose number is the version.

Each is changed by compare-and-swap. A write is stored when it returns, and the leader of a stream answers reads, so
that a reader gets what was written before.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from cachetools import LRUCache
from nats.js import JetStreamContext
from nats.js.errors import APIError

from tieline_api import errors
from tieline_api.engine.errors import EngineFullError, EngineUnavailableError, NoStreamError
from tieline_api.engine.requests import TIMEOUT, EngineRequests
from tieline_core.engine.publisher import is_full
from tieline_core.engine.state_streams import MAX_KEY_BYTES, StatePlace
from tieline_engine.refusals import WRONG_SEQUENCE
from tieline_protocol.event_streams import EXPECTED_SEQUENCE, TTL

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NO_MESSAGE = 10037
_NO_STREAM = 10059
_NO_SUCH_NUMBER = 10043
_FULL = "maximum bytes exceeded"
_DIGITS = 20
_PLACES = 50_000
_PAGES = 100
_SHARE = 4
"""A replica writes a quarter of the keys that there is room for without counting again: there may be four."""


@dataclass(frozen=True, kw_only=True)
class DocumentLimits:
    """What one place may hold."""

    keys: int
    value_bytes: int
    forgets: bool = False
    """Whether the document that was written longest ago makes room for one too many."""


@dataclass(frozen=True, kw_only=True)
class DocumentScope:
    """Where documents with keys of their own are: an activation's state, or an environment's schedules."""

    place: StatePlace
    bounds: DocumentLimits

    def document(self, key: str) -> "DocumentKey":
        """One of them."""
        return DocumentKey(place=self.place, bounds=self.bounds, key=key)


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


class NoStoreError(EngineUnavailableError):
    """503: the organisation's streams are not there."""

    def __init__(self) -> None:
        super().__init__(
            "The event engine has no place for this organisation's state yet: deploy an environment, and try again in "
            "a moment"
        )


@dataclass(frozen=True)
class StoredValue:
    """A message of a value."""

    sequence: int
    headers: Mapping[str, str]
    data: bytes
    written_at: datetime

    @property
    def version(self) -> str:
        """What callers compare."""
        return version_of(self.sequence)

    @property
    def document(self) -> Document:
        """The value."""
        ttl = self.headers.get(TTL, "").removesuffix("s")
        expires = self.written_at + timedelta(seconds=int(ttl)) if ttl.isdecimal() else None
        return Document(text=self.data, version=self.version, written_at=self.written_at, expires_at=expires)


class Documents:
    """Reads and writes them. All of it raises ApiError, 503 where the engine is away."""

    def __init__(self, engine: EngineRequests) -> None:
        self._engine = engine
        self._room: LRUCache[StatePlace, int] = LRUCache(_PLACES)
        """How many keys may be written at a place until they are counted again."""

    async def get(self, ref: DocumentKey) -> Document | None:
        """The document, if there is one."""
        found = await self._last(ref)
        return found.document if found else None

    async def put(
        self, ref: DocumentKey, value: Any, *, anyway: bool, expected: str | None, expires: int | None = None
    ) -> str:
        """Write ``value``, if what is there has the version ``expected`` (None: is nothing), or ``anyway``.

        It is deleted after ``expires`` seconds. ``value`` is what orjson writes, ``orjson.Fragment`` included.
        Returns the new version. ApiError 409 when there is another one, 413 and 422 for what is out of bounds.
        """
        text = json_text(value)
        check_size(ref, text)
        headers: dict[str, str] = {}
        sequence = None if anyway else self._expected(expected)
        if sequence is not None:
            headers[EXPECTED_SEQUENCE] = str(sequence)
        if expires is not None:
            headers[TTL] = f"{expires}s"
        if not sequence:
            await self._make_room(ref)
        return version_of(await self._publish(ref, text, headers))

    async def delete(self, ref: DocumentKey, *, anyway: bool, expected: str | None) -> None:
        """Forget a document, by the same rules."""
        if anyway:
            await self._engine.purge(ref.place.stream, ref.place.subject(ref.key))
            return
        found = await self._last(ref)
        if expected != (found.version if found else None):
            raise changed()
        if found is not None:
            # Who writes meanwhile gives the value another number, so that this one is gone.
            answer = await self._ask(
                f"STREAM.MSG.DELETE.{ref.place.stream}", {"seq": found.sequence, "no_erase": True}
            )
            if _code(answer) == _NO_SUCH_NUMBER:
                raise changed()
            _require_success(answer)

    async def keys(self, scope: DocumentScope) -> list[str]:
        """The keys of all documents of a scope, in order."""
        found = (scope.place.key(subject) for subject in await self.subjects(scope.place))
        return sorted(key for key in found if key is not None)

    async def subjects(self, place: StatePlace) -> list[str]:
        """The subjects of all messages at a place. ApiError 503."""
        subjects: list[str] = []
        for _ in range(_PAGES):
            answer = await self._ask(
                f"STREAM.INFO.{place.stream}", {"subjects_filter": place.subjects, "offset": len(subjects)}
            )
            _require_success(answer)
            more = list(answer["state"].get("subjects") or {})
            subjects += more
            if not more or len(subjects) >= int(answer.get("total") or 0):
                break
        return subjects

    @staticmethod
    def _expected(expected: str | None) -> int:
        """The number that the version stands for: 0 for none. ApiError 409."""
        if expected is None:
            return 0
        try:
            sequence = int(expected, 16) if len(expected) == _DIGITS else 0
        except ValueError:
            sequence = 0
        # 0 would mean that nothing is there, which no version says.
        if sequence <= 0:
            raise changed()
        return sequence

    async def _last(self, ref: DocumentKey) -> StoredValue | None:
        return await self._at(ref.place, ref.place.subject(ref.key))

    async def _at(self, place: StatePlace, subject: str) -> StoredValue | None:
        answer = await self._ask(f"STREAM.MSG.GET.{place.stream}", {"last_by_subj": subject})
        if _code(answer) == _NO_MESSAGE:
            return None
        _require_success(answer)
        message = answer["message"]
        return StoredValue(
            sequence=int(message["seq"]),
            headers=_headers(message.get("hdrs", "")),
            data=base64.b64decode(message.get("data", "")),
            written_at=datetime.fromisoformat(message["time"]).astimezone(UTC),
        )

    async def _make_room(self, ref: DocumentKey) -> None:
        """Counts the keys now and then. ApiError 422 where there are too many for one more."""
        place, limit = ref.place, ref.bounds.keys
        left = self._room.get(place, 0)
        if left > 0:
            self._room[place] = left - 1
            return
        subjects = await self.subjects(place)
        self._room[place] = max(limit - len(subjects), 0) // _SHARE
        if len(subjects) < limit or place.subject(ref.key) in subjects:
            return
        if not ref.bounds.forgets:
            raise errors.invalid(
                "key",
                f"there is no room for one more: an activation keeps at most {limit:,} values; delete some first",
            )
        oldest = await self._engine.first_at(place.stream, place.subjects)
        if oldest is not None:
            await self._engine.delete(place.stream, oldest.sequence)

    async def _publish(self, ref: DocumentKey, text: bytes, headers: Mapping[str, str]) -> int:
        async def work(jetstream: JetStreamContext) -> int:
            try:
                stored = await jetstream.publish(
                    ref.place.subject(ref.key),
                    text,
                    timeout=TIMEOUT,
                    stream=ref.place.stream,
                    headers=dict(headers) or None,
                )
            except APIError as error:
                if error.err_code in WRONG_SEQUENCE:
                    raise changed() from None
                if is_full(error):
                    raise _no_room(error) from None
                raise
            return stored.seq

        try:
            return await self._engine.ask(work)
        except NoStreamError:
            raise NoStoreError from None

    async def _ask(self, operation: str, content: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._engine.request(f"$JS.API.{operation}", json.dumps(content).encode())
        except NoStreamError:
            raise NoStoreError from None
        found: dict[str, Any] = orjson.loads(answer.data)
        if _code(found) == _NO_STREAM:
            raise NoStoreError
        return found


def version_of(sequence: int) -> str:
    """The version of a value by its message's number: 20 hexadecimal digits, which sort as they were written."""
    return f"{sequence:0{_DIGITS}x}"


def _code(answer: Mapping[str, Any]) -> int | None:
    error: Mapping[str, Any] = answer.get("error") or {}
    return error.get("err_code")


def _require_success(answer: Mapping[str, Any]) -> None:
    if "error" in answer:
        raise EngineUnavailableError


def _headers(text: str) -> dict[str, str]:
    lines = base64.b64decode(text).decode("utf-8", "replace").split("\r\n")[1:]
    found = (line.partition(":") for line in lines if line)
    return {name: value.strip() for name, _, value in found}


def _no_room(error: APIError) -> errors.ApiError:
    """Whose limit it is: the organisation's, or that of the engine's volume."""
    if _FULL not in (error.description or ""):
        return EngineFullError()
    return errors.invalid(
        "value",
        "there is no room for it: the values of all integrations of the organisation take as much as they may; delete "
        "some, or ask your administrator for more (TIELINE_ENGINE_STATE_BYTES)",
    )


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
