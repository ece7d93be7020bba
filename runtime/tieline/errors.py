"""What can go wrong, in sentences that say what to do about it."""

import math
import sysconfig
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import aiohttp
from multidict import CIMultiDictProxy

from tieline_protocol.limit_answers import LimitSignal

_NOT_THE_AUTHORS = (
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    str(Path(__file__).parent),
)


class TielineError(Exception):
    """Base of all errors that Tieline itself raises in integration code.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         return await (await ctx.fetch("shop", "/orders")).text()
    ...     except TielineError as error:
    ...         ctx.log.error("The shop cannot be asked", reason=str(error))
    ...         raise
    """

    span_type: ClassVar[str | None] = None
    """The ``exception.type`` of spans, where the class has moved since; None is the class's qualified name."""


class CodeError(TielineError):
    """The project's code cannot be served: it does not load, or holds no integration."""


class ConfigurationError(TielineError):
    """The environment's configuration (connections, variables) or the server's settings cannot be used."""


class ReturnValueError(TielineError):
    """A webhook returned something that has no form as an HTTP answer."""


class UnknownVariableError(TielineError, KeyError):
    """The code reads a variable that the activation does not have, and the schema has no default for.

    >>> async def report(ctx: Context) -> str:
    ...     try:
    ...         return ctx.variables["regoin"]
    ...     except UnknownVariableError as error:
    ...         return str(error)
    >>> run(report)
    "There is no variable 'regoin' (there are: 'region'); add it to the activation's variables, or …"
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = ", ".join(repr(name) for name in sorted(known)) or "none"
        super().__init__(
            f"There is no variable {name!r} (there are: {names}); add it to the activation's variables, or give it "
            "a default in the project's schema of dynamic variables"
        )

    def __str__(self) -> str:
        # KeyError would show the message as a Python literal.
        return str(self.args[0])


class UnknownTemplateError(TielineError):
    """The code names a connection template that the environment does not have.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         await ctx.fetch("shopp", "/orders")
    ...     except UnknownTemplateError as error:
    ...         return str(error)
    >>> run(orders)
    "There is no connection template 'shopp' in this environment (there are: 'crm', 'mail', 'shop', 'unlinked'); …"
    """

    def __init__(self, template: str, known: Iterable[str], *, file: str = "") -> None:
        """``file`` is the connections file where there is one."""
        names = ", ".join(repr(name) for name in sorted(known)) or "none"
        do = (
            f"add {template!r} to the connections in {file}"
            if file
            else f"create a ConnectionTemplate with the name {template!r} for this project and environment"
        )
        super().__init__(
            f"There is no connection template {template!r} in this environment (there are: {names}); {do}"
        )


class TemplateNotLinkedError(TielineError):
    """The template exists, and no connection is linked to it.

    >>> async def optional(ctx: Context) -> str:
    ...     try:
    ...         await ctx.fetch("unlinked", "/orders")
    ...     except TemplateNotLinkedError:
    ...         return "nobody has set it up yet"
    >>> run(optional)
    'nobody has set it up yet'
    """

    def __init__(self, template: str, *, file: str = "") -> None:
        """``file`` is the connections file where there is one."""
        do = (
            f"add {template!r} to the connections in {file}"
            if file
            else "create a Connection for its system and link it (the template's connectionRef)"
        )
        super().__init__(f"The connection template {template!r} has no connection linked to it; {do}")


class DynamicTemplateError(TielineError):
    """The template's connections belong to users, and the run is nobody's.

    >>> async def people(ctx: Context) -> int | str:
    ...     try:
    ...         return (await ctx.fetch("crm", "/people")).status
    ...     except DynamicTemplateError:
    ...         return "call it for a user"
    >>> run(people), run(people, user="ann")
    ('call it for a user', 200)
    """

    def __init__(self, template: str) -> None:
        super().__init__(
            f"The connection template {template!r} is dynamic: its connections come from users' activations, "
            "and this run belongs to none; use a static template here, or call the webhook for a user "
            "(/<webhook>/users/<external id>)"
        )


class NoConnectionOfUserError(TielineError):
    """The run is a user's, and the user's activation has no connection for the dynamic template.

    >>> async def people(ctx: Context) -> int | str:
    ...     try:
    ...         return (await ctx.fetch("crm", "/people")).status
    ...     except NoConnectionOfUserError:
    ...         return "they have not connected their CRM"
    >>> run(people, user="ann"), run(people, user="ben")
    (200, 'they have not connected their CRM')
    """

    def __init__(self, template: str, external_id: str, *, file: str = "") -> None:
        """``file`` is the connections file where there is one."""
        where = f"the user's connections in {file}" if file else "the activation's connections"
        super().__init__(
            f"The activation of user {external_id!r} has no connection for the template {template!r}; "
            f"add one to {where}"
        )


class UnsupportedAuthSchemeError(TielineError):
    """The connection has a credential for a scheme that this version cannot apply. No request was sent.

    >>> issubclass(UnsupportedAuthSchemeError, TielineError)
    True
    """

    def __init__(self, *, template: str, credential: str, scheme: str, supported: Iterable[str]) -> None:
        super().__init__(
            f"The connection of template {template!r} has the credential {credential!r} with the auth scheme "
            f"{scheme!r}, which this version of the runtime cannot apply (it can: "
            f"{', '.join(sorted(supported))}); the request was not sent"
        )


class CredentialError(TielineError):
    """A credential's values cannot be used for its auth scheme. Names fields, never their values.

    >>> str(CredentialError(template="shop", credential="key", problem="its Secret has no value"))
    "The credential 'key' of template 'shop': its Secret has no value"
    """

    def __init__(self, *, template: str, credential: str, problem: str) -> None:
        super().__init__(f"The credential {credential!r} of template {template!r}: {problem}")


class CredentialsNotExposedError(TielineError):
    """The code reads credentials that are not open to it.

    >>> async def login(ctx: Context) -> str:
    ...     try:
    ...         return (await ctx.credentials("shop")).secret
    ...     except CredentialsNotExposedError as error:
    ...         return str(error)
    >>> run(login)
    "Code may not read the credentials of template 'shop'; set exposeToCode of the template (in a connections …"
    """

    def __init__(self, template: str, *, connection: str | None) -> None:
        """``connection``: the name of the connection that is not open to code; None where the template is not."""
        what = (
            f"set exposeToCode of the template (in a connections file, of the connection {template!r})"
            if connection is None
            else f"the connection {connection!r} is not open to code: a user with the right to expose connections "
            "sets its exposeToCode"
        )
        super().__init__(f"Code may not read the credentials of template {template!r}; {what}")


class MissingCredentialError(TielineError):
    """The connection has no credential of the kind that the code reads. Names types and ids, never values.

    >>> str(MissingCredentialError(template="db", wanted="of type basic-auth", found=["string"]))
    "The connection of template 'db' has no credential of type basic-auth (there are: string)"
    """

    def __init__(self, *, template: str, wanted: str, found: Iterable[str]) -> None:
        there = ", ".join(found) or "none"
        super().__init__(
            f"The connection of template {template!r} has no credential {wanted} (there are: {there})"
        )


class ForeignOriginError(TielineError):
    """The code passed an absolute URL of another origin than the connection's.

    >>> async def follow(ctx: Context) -> str:
    ...     try:
    ...         await ctx.fetch("shop", "https://elsewhere.example/orders")
    ...     except ForeignOriginError:
    ...         return "credentials are never sent elsewhere"
    >>> run(follow)
    'credentials are never sent elsewhere'
    """

    def __init__(self, *, template: str, origin: str, base_origin: str) -> None:
        super().__init__(
            f"The URL's origin {origin} is not that of the connection of template {template!r}, {base_origin}; "
            "credentials are never sent elsewhere: pass a path, or use a template for that system"
        )


class ForeignRedirectError(TielineError):
    """The system answered with a redirect to another origin. Nothing was sent there.

    >>> issubclass(ForeignRedirectError, TielineError)
    True
    """

    def __init__(self, *, template: str, origin: str, base_origin: str) -> None:
        super().__init__(
            f"The connection of template {template!r} redirects from {base_origin} to {origin}, and redirects to "
            "another origin are not followed; pass allow_redirects=False to get the redirect itself, and request "
            "its Location with a template for that system or a client of your own"
        )


class InvalidPathError(TielineError):
    """The path or the connection's base URL cannot be turned into a URL to request.

    >>> async def order(ctx: Context) -> str:
    ...     try:
    ...         await ctx.fetch("shop", f"/orders/{'../admin'}")
    ...     except InvalidPathError:
    ...         return "percent-encode what callers give"
    >>> run(order)
    'percent-encode what callers give'
    """


class UpstreamError(TielineError, aiohttp.ClientResponseError):
    """The system answered with a status of 400 or above, and the code called ``raise_for_status()``.

    >>> async def order(ctx: Context) -> str:
    ...     response = await ctx.fetch("shop", "/refused", method="POST", json={"lines": []})
    ...     try:
    ...         response.raise_for_status()
    ...     except UpstreamError as error:
    ...         return f"{error.status}: {error.body}"
    ...     return "taken"
    >>> run(order)
    '422: {"error": "an order needs lines"}'
    """

    def __init__(
        self,
        *,
        template: str,
        body: str,
        method: str,
        url: str,
        reason: str,
        status: int,
        request_info: aiohttp.RequestInfo,
        history: tuple[aiohttp.ClientResponse, ...] = (),
        headers: CIMultiDictProxy[str] | None = None,
        system: str = "",
    ) -> None:
        super().__init__(request_info, history, status=status, message=reason, headers=headers)
        self.template = template
        """The connection template that the request went through."""
        self.system = system or template
        """The name of the system that answered, or of the connection template if the system is unknown."""
        self.body = body
        """The beginning of the answer's body (2,048 characters), with known secrets replaced."""
        self._request = f"{method} {url}"

    def __str__(self) -> str:
        body = f": {self.body}" if self.body else ", and nothing in its body"
        return f"{self.template} answered {self._request} with {self.status} {self.message}{body}"

    def __repr__(self) -> str:
        # aiohttp's shows the request's headers, which hold the credentials.
        return f"{type(self).__name__}({str(self)!r})"


class RateLimitedError(UpstreamError):
    """The system answered that it gets too many requests, and the code called ``raise_for_status()``.

    The status is 429, or what the System says (``limits.answers``), such as a 403 or a 200 with an error in it. An
    event that ends with it is not run again before ``retry_after`` seconds.

    >>> issubclass(RateLimitedError, UpstreamError)
    True
    """

    def __init__(self, *, limit: LimitSignal, **answer: Any) -> None:
        super().__init__(**answer)
        self.limit = limit
        """What the answer says about the limits."""
        self.retry_after = limit.seconds
        """Seconds until the system accepts requests again, at most an hour; None where it does not say it."""
        self._until = "" if limit.seconds is None else until(limit.seconds)

    def __str__(self) -> str:
        when = (
            f"accepts requests again {self._until}"
            if self._until
            else "does not say when it accepts requests again"
        )
        return f"{super().__str__()}. The limits of the system are reached, and it {when}"


def until(seconds: float) -> str:
    """The time after ``seconds``, for people: in UTC, with the seconds that are left.

    >>> until(30).startswith("at ") and until(30).endswith(" (in 30 seconds)")
    True
    """
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return f"at {at:%Y-%m-%dT%H:%M:%SZ} (in {math.ceil(seconds)} seconds)"


class RequestTimeoutError(TielineError, TimeoutError):
    """The system did not answer a request in the time that it had.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         return await (await ctx.fetch("shop", "/orders", timeout=5)).text()
    ...     except RequestTimeoutError:
    ...         return "the shop is slow today"
    >>> run(orders) != "the shop is slow today"
    True
    """

    def __init__(self, *, template: str, method: str, url: str, seconds: float | None) -> None:
        limit = f"within {seconds:g} seconds" if seconds else "in time"
        super().__init__(
            f"{template} did not answer {method} {url} {limit}; pass timeout= for another limit, "
            "or ask for less at once"
        )


class LimitReachedError(TielineError):
    """The request was not sent: the limits of its connection left no room for it in the run's time.

    The run of an event or a queued webhook that ends with it is run again later, and its attempt does not count as
    failed. A direct webhook answers 503 with ``Retry-After``.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         return await (await ctx.fetch("shop", "/orders")).text()
    ...     except LimitReachedError as error:
    ...         return f"come again in {error.retry_after:g} seconds"
    >>> run(orders).startswith("come again")
    False
    """

    def __init__(
        self, *, template: str, limits: str, waited: float, paused: float, retry_after: float
    ) -> None:
        why = (
            f"the system has asked for a pause, and accepts requests again {until(paused)}"
            if paused
            else "others use all of it; send less, give the run more time, or raise the connection's limits"
        )
        super().__init__(
            f"The limits of template {template!r} ({limits}) left no room for a request in the run's time, after it "
            f"waited {waited:.1f} seconds: {why}. The request was not sent"
        )
        self.template = template
        """The connection template that the request was to go through."""
        self.limits = limits
        """What its limits allow, such as ``100 requests in 1m``."""
        self.retry_after = retry_after
        """Seconds after which another attempt is worth it."""


def reached_limit(error: BaseException) -> LimitReachedError | None:
    """The LimitReachedError that ``error`` is, also where all errors of a TaskGroup are such: the longest to wait."""
    if isinstance(error, LimitReachedError):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [reached_limit(one) for one in error.exceptions]
    limits = [one for one in found if one is not None]
    if len(limits) < len(found):
        return None
    return max(limits, key=lambda one: one.retry_after)


def without_ssl_default(text: str) -> str:
    """``text`` without the option ``ssl`` that aiohttp adds to its connection errors, those of plain HTTP too.

    >>> without_ssl_default("Cannot connect to host shop:80 ssl:default [Connection refused]")
    'Cannot connect to host shop:80 [Connection refused]'
    """
    return text.replace(" ssl:default [", " [")


def own_frames(
    error: BaseException,
) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """The error for ``exc_info``, from the first frame of the author's code on; all of it where there is none."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_NOT_THE_AUTHORS):
        frame = frame.tb_next
    return type(error), error, frame or error.__traceback__


def reason(error: BaseException) -> str:
    """The error in one text that is never empty: its own, or else its type and where it was raised.

    >>> reason(ValueError("no order")), reason(TimeoutError())
    ('no order', 'TimeoutError')
    """
    kind = type(error).__name__
    text = without_ssl_default(str(error)).strip()
    if text:
        # A KeyError's own text is the key alone.
        return f"{kind}: {text}" if type(error) is KeyError else text
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_AUTHORS)] or frames
    if not own:
        return kind
    location = f"{kind} at {Path(own[-1].filename).name}:{own[-1].lineno}"
    return f"{location}: {own[-1].line}" if own[-1].line else location
