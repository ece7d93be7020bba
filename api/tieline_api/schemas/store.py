"""Values of activations' state in REST, with the fields that existing clients send and read."""

from typing import Annotated

from pydantic import Field, StrictBool, StringConstraints

from tieline_api.schemas.base import Rest, TimeOut
from tieline_core.engine.state_streams import MAX_EXPIRY_SECONDS, MAX_KEY_BYTES

_Part = Annotated[str, StringConstraints(min_length=1, max_length=MAX_KEY_BYTES)]
_Cursor = Annotated[str, StringConstraints(max_length=2048)]


class StoreOptions(Rest):
    """How a value is set."""

    expire_in: Annotated[int, Field(ge=1, le=MAX_EXPIRY_SECONDS * 1000)] | None = None
    """Milliseconds after which the value is deleted, rounded up to seconds; without it, it stays."""
    if_not_exists: StrictBool = False
    """Whether a value that is there stays as it is."""


class StoreWrite(Rest):
    """A value to set."""

    value: str
    """The value as JSON text."""
    options: StoreOptions = StoreOptions()
    """How it is set."""


class StoreCommitted(Rest):
    """What became of setting a value."""

    committed: bool
    """False where a value was there and had to stay."""
    versionstamp: str | None = None
    """The version of the value that was set."""


class StoreValue(Rest):
    """A value."""

    value: str
    """The value as JSON text."""
    versionstamp: str
    """Its version, which differs after each change."""
    created_at: TimeOut | None = None
    """When this version was set."""
    expires_at: TimeOut | None = None
    """When it is deleted; absent where it stays."""


class StoreDeleteOptions(Rest):
    """What is deleted."""

    cascade: StrictBool = False
    """Whether values whose keys begin with this key and a slash are deleted too."""


class StoreDelete(Rest):
    """How a value is deleted."""

    options: StoreDeleteOptions = StoreDeleteOptions()
    """What is deleted."""


class StoreFilter(Rest):
    """Which keys are meant."""

    prefix: Annotated[list[_Part], Field(default_factory=list, max_length=MAX_KEY_BYTES)]
    """The parts that keys begin with; a key that has these parts alone is not meant."""
    filter: Annotated[str, StringConstraints(max_length=MAX_KEY_BYTES)] | None = None
    """Text that keys contain, their parts joined by slashes."""


class StoreSelector(StoreFilter):
    """Which keys are listed."""

    after: _Cursor | None = None
    """The ``nextCursor`` of the page before."""
    before: _Cursor | None = None
    """The ``prevCursor`` of the page after."""


class StoreListOptions(Rest):
    """How keys are listed."""

    limit: Annotated[int, Field(ge=1, le=100)] = 100
    """How many keys, 1 to 100."""
    reverse: StrictBool = False
    """Whether the last key comes first."""


class StoreList(Rest):
    """A request for keys."""

    selector: StoreSelector = StoreSelector()
    """Which keys are listed."""
    options: StoreListOptions = StoreListOptions()
    """How they are listed."""


class StoreKey(Rest):
    """A key."""

    key: list[str]
    """Its parts, which slashes divide in paths."""


class StorePagination(Rest):
    """Where the list goes on."""

    next_cursor: str | None = None
    """Pass it as ``after`` for the next page; absent on the last."""
    prev_cursor: str | None = None
    """Pass it as ``before`` for the page before; absent on the first."""


class StorePage(Rest):
    """A part of the keys, in the order of their parts."""

    data: list[StoreKey]
    """The keys."""
    pagination: StorePagination
    """Where the list goes on."""


class StoreCountRequest(Rest):
    """A request for the number of keys."""

    selector: StoreFilter = StoreFilter()
    """Which keys are counted."""


class StoreCount(Rest):
    """A number of keys."""

    count: int
    """How many there are."""
