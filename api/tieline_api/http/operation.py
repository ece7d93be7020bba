"""What an operation is: one row of the table, with what its handler receives and returns."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    get_args,
    get_type_hints,
)

from pydantic import BaseModel

from tieline_api.auth.end_user_reach import EndUserReach
from tieline_api.auth.permissions import Permission
from tieline_api.body_limits import BodyKind

if TYPE_CHECKING:
    from aiohttp import web
    from multidict import CIMultiDictProxy

    from tieline_api.auth.authentication import Caller
    from tieline_api.cluster.organisations import Organisation
    from tieline_api.dependencies import Dependencies

Q_co = TypeVar("Q_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)
A_co = TypeVar("A_co", bound=BaseModel | None, covariant=True)
H = TypeVar("H", bound="Handler")
P = ParamSpec("P")

ORGANISATION = "/api/v2/o/{organisation_id}"


@dataclass(frozen=True, kw_only=True)
class ProxyRequest:
    """A request as it was sent, for an operation that proxies it or has a protocol of its own."""

    method: str
    path: str
    """What comes after the operation's own path, percent-encoded, with its query."""
    headers: "CIMultiDictProxy[str]"


@dataclass(frozen=True, kw_only=True)
class Call(Generic[Q_co, B_co]):
    """One call of an operation: who, where, and with what."""

    platform: "Dependencies"
    organisation: "Organisation"
    caller: "Caller"
    path: Mapping[str, str]
    query: Q_co
    body: B_co
    raw: bytes = b""
    """The body as it was sent, of operations that say so in their row."""
    if_match: str | None = None
    """The value of If-Match; a write compares it with the object it changes."""
    upload: BinaryIO | None = None
    """The file of an operation with an upload; closed when the operation ends."""
    proxied: ProxyRequest | None = None
    """The request, where the row says ``proxies`` or ``own_protocol``."""
    recheck: Callable[[], Awaitable[None]] | None = None
    """Of an operation whose row says ``streams``: raises ApiError once the caller may no longer call it."""
    session_seconds: float | None = None
    """How long the caller's session in the console lasts at most; None for callers without one."""

    @property
    def request(self) -> ProxyRequest:
        """The request of an operation whose row says ``proxies`` or ``own_protocol``."""
        if self.proxied is None:
            raise LookupError("The operation gets no request: set proxies or own_protocol in its row")
        return self.proxied

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
        return EndUserReach(self.platform.cluster, self.namespace, scope) if scope is not None else None

    @property
    def namespace(self) -> str:
        """The organisation's namespace."""
        return self.organisation.namespace


@dataclass(frozen=True, kw_only=True)
class Reply(Generic[A_co]):
    """What a handler answers; the status is the operation's own. ``A_co`` is the model of the document, or None."""

    body: A_co | None = None
    content: bytes | None = None
    """The answer as JSON, where it is too large to become models first."""
    parts: Sequence[bytes] = ()
    """The same in parts, where it is too large to be put together."""
    etag: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    response: "web.Response | None" = None
    """The whole answer, where it comes from elsewhere."""


AnyCall = Call[object, object]
"""A call, for what reads neither its query nor its body."""

Handler = Callable[[Call[Any, Any]], Awaitable[Reply[Any]]]
EnvironmentsOf = Callable[[Call[Any, Any]], Awaitable[Sequence[str]]]
"""The names (``metadata.name``) of the Environments that a call changes; none where it changes more than these."""
EndUserCheck = Callable[[Call[Any, Any]], Call[Any, Any] | Awaitable[Call[Any, Any]]]
"""Gets the call of an end user, and returns it with nothing but what is theirs; ApiError where there is more in it."""


@dataclass(frozen=True)
class Operation:
    """One row: everything that routes, validation, permission and documentation need to know."""

    handler: Handler
    """A function of one ``call: Call[Q, B]`` that returns a ``Reply[Model]``: these are the operation's models."""
    method: str
    path: str
    _: KW_ONLY
    id: str
    summary: str
    permissions: tuple[Permission, ...]
    """None where the path names no organisation: every caller may ask about itself."""
    by_environment: EnvironmentsOf | None = None
    """What the call changes, where the right to patch these Environments is enough without that to patch projects."""
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
    proxies: bool = False
    """Whether the request is sent on as it is. The path's last part stands for any path, and the answer, whatever
    its status, is the handler's."""
    own_protocol: bool = False
    """Whether the request is of a protocol that the handler speaks: it gets the body and the headers as they were sent,
    and makes the answer."""
    streams: bool = False
    """Whether the answer is a stream of server-sent events, each with the answer's model as its data."""
    success: int = 200
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
        return self._models("call")[0]

    @cached_property
    def body(self) -> type[BaseModel] | None:
        """The model of the body: the handler's B."""
        return self._models("call")[1]

    @cached_property
    def response(self) -> type[BaseModel] | None:
        """The model of the answer: that of the handler's Reply."""
        return self._models("return")[0]

    def _models(self, annotation: str) -> list[type[BaseModel] | None]:
        arguments = get_args(get_type_hints(self.handler)[annotation])
        return [None if model is NoneType else model for model in arguments]


def _adding(
    operation: Callable[Concatenate[Handler, P], Operation],
) -> Callable[Concatenate["Operations", P], Callable[[H], H]]:
    """A method that takes what an operation has besides its handler, and decorates the handler."""

    def add(self: "Operations", /, *args: P.args, **kwargs: P.kwargs) -> Callable[[H], H]:
        def register(handler: H) -> H:
            self.rows.append(operation(handler, *args, **kwargs))
            return handler

        return register

    return add


class Operations:
    """The operations of a module, in the order of their handlers::

    OPERATIONS = Operations("Systems")

    @OPERATIONS.add("GET", SYSTEM, id="getSystem", summary="Get a system", permissions=…)
    async def get_system(call: Call[None, None]) -> Reply[System]: ...
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag
        """What they are listed under, unless their row says it."""
        self.rows: list[Operation] = []

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.rows)

    add = _adding(Operation)
