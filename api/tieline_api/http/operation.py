"""What an operation is: one row of the table, with what its handler receives and returns."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar, get_args, get_type_hints

from pydantic import BaseModel

from tieline_api.auth.end_user_reach import EndUserReach
from tieline_api.auth.permissions import Permission
from tieline_api.body_limits import BodyKind

if TYPE_CHECKING:
    from aiohttp import web
    from multidict import CIMultiDictProxy

    from tieline_api.auth.authentication import Caller
    from tieline_api.cache.organisations import Organisation
    from tieline_api.dependencies import Dependencies

Q = TypeVar("Q")
B = TypeVar("B")

ORGANISATION = "/api/v2/o/{organisation_id}"


@dataclass(frozen=True, kw_only=True)
class PassedOn:
    """A request that an operation passes on, as it was sent."""

    method: str
    path: str
    """What comes after the operation's own path, percent-encoded, with its query."""
    headers: "CIMultiDictProxy[str]"


@dataclass(frozen=True, kw_only=True)
class Call(Generic[Q, B]):
    """One call of an operation: who, where, and with what."""

    platform: "Dependencies"
    organisation: "Organisation"
    caller: "Caller"
    path: Mapping[str, str]
    query: Q
    body: B
    raw: bytes = b""
    """The body as it was sent, of operations that say so in their row."""
    if_match: str | None = None
    """The value of If-Match; a write compares it with the object it changes."""
    upload: BinaryIO | None = None
    """The file of an operation with an upload; closed when the operation ends."""
    passed_on: PassedOn | None = None
    """The request of an operation that passes requests on, or has a protocol of its own."""

    @property
    def request(self) -> PassedOn:
        """The request of an operation whose row says that it passes requests on, or has a protocol of its own."""
        if self.passed_on is None:
            raise LookupError("The operation passes no requests on: say so in its row")
        return self.passed_on

    @property
    def file(self) -> BinaryIO:
        """The file of an operation whose row says that there is one."""
        if self.upload is None:
            raise LookupError("The operation has no upload: say so in its row")
        return self.upload

    @cached_property
    def reach(self) -> EndUserReach | None:
        """What the caller reaches, where it is an end user. None for everybody else: permissions are checked before."""
        scope = self.caller.end_user
        return EndUserReach(self.platform.world, self.namespace, scope) if scope is not None else None

    @property
    def namespace(self) -> str:
        """The organisation's namespace."""
        return self.organisation.namespace


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a handler answers; the status is the operation's own."""

    body: BaseModel | None = None
    content: bytes | None = None
    """The answer as JSON, where it is too large to become models first."""
    parts: Sequence[bytes] = ()
    """The same in parts, where it is too large to be put together."""
    etag: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    response: "web.Response | None" = None
    """The whole answer, where it comes from elsewhere."""


Handler = Callable[[Call[Any, Any]], Awaitable[Reply]]
EndUserCheck = Callable[[Call[Any, Any]], Call[Any, Any] | Awaitable[Call[Any, Any]]]
"""Gets the call of an end user, and returns it with nothing but what is theirs; ApiError where there is more in it."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One row: everything that routes, validation, permission and documentation need to know."""

    id: str
    path: str
    summary: str
    method: str = "GET"
    handler: Handler
    """A function of one ``call: Call[Q, B]``."""
    permissions: tuple[Permission, ...]
    """None where the path names no organisation: every caller may ask about itself."""
    end_user: EndUserCheck | None = None
    """What an end user may do of it. None: nothing, so that a new operation is closed to them."""
    tag: str = ""
    """What it is listed under; where the row does not say it, what the rows of its module are."""
    body_optional: bool = False
    """Whether an absent body means an empty object."""
    size: BodyKind = BodyKind.BODY
    """How large the body may be (with an upload: the file)."""
    keeps_body: bool = False
    """Whether the handler reads values of the body as they were sent, such as large numbers."""
    strict: bool = False
    """Whether fields and parameters that it does not have are refused, rather than ignored with a warning, and so are
    parameters with several values."""
    tail: bool = False
    """Whether the last part of the path may have slashes."""
    upload: bool = False
    """Whether the body is multipart: ``body`` in the part metadata, and a file."""
    passes_on: bool = False
    """Whether the request goes elsewhere as it is. The path's last part stands for any path, and the answer, whatever
    its status, is the handler's."""
    own_protocol: bool = False
    """Whether the request is of a protocol that the handler speaks: it gets the body and the headers as they were sent,
    and makes the answer."""
    success: int = 200
    response: type[BaseModel] | None = None
    empty: bool = False
    """Whether the answer is an empty JSON object rather than none."""
    errors: tuple[int, ...] = ()
    """Statuses beyond those that every operation of its kind can answer with."""
    key_as_bearer: bool = False
    """Whether an API key may be the bearer value too."""
    conditional: bool = False
    """Whether If-None-Match (GET) or If-Match (PUT, PATCH) is honoured."""
    link_sources: Mapping[str, str] = field(default_factory=dict)
    """What it makes: where the answer (a JSON Pointer) has what other operations' paths call so."""
    link_parameters: Mapping[str, str] = field(default_factory=dict)
    """Fields of the body that are ids, and what paths call them."""
    example: Mapping[str, Any] | None = None
    response_example: Mapping[str, Any] | list[Any] | None = None

    @cached_property
    def query(self) -> type[BaseModel] | None:
        """The model of the query string: the handler's Q."""
        return _call_models(self.handler)[0]

    @cached_property
    def body(self) -> type[BaseModel] | None:
        """The model of the body: the handler's B."""
        return _call_models(self.handler)[1]


def _call_models(handler: Handler) -> list[type[BaseModel] | None]:
    """The models of the ``Call[Q, B]`` that a handler takes; None for what it does not take."""
    return [None if model is NoneType else model for model in get_args(get_type_hints(handler)["call"])]
