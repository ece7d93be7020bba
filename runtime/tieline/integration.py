"""Integration: where code registers what it wants to run."""

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Handler = Callable[..., Any]
F = TypeVar("F", bound=Handler)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A function that is run by HTTP requests to ``/<name>``."""

    name: str
    methods: frozenset[str]
    handler: Handler
    is_async: bool
    arguments: int
    """How many of (context, request) the function takes: 0, 1 or 2."""
    connection: str | None = None
    """The connection template whose credentials callers must show."""


class Integration:
    """Collects the webhooks of a project; ``main.py`` holds one at module level."""

    def __init__(self) -> None:
        self.webhooks: dict[str, Webhook] = {}

    def webhook(
        self, name: str, *, methods: Iterable[str] = ("POST",), connection: str | None = None
    ) -> Callable[[F], F]:
        """Run the decorated function for requests to ``/<name>`` with one of ``methods``.

        Requests to ``/<name>/users/<external id>`` run it for that user's activation. With ``connection``,
        the name of a connection template, only requests that show the connection's credentials are run:
        its API key, its user name and password, or its HMAC signature. Others are answered with 401.

        ``async def f(ctx: Context, request: Request)`` runs on the event loop; ``def f(ctx: SyncContext,
        request: SyncRequest)`` runs in a thread and may block. A function that needs no request may leave
        it out. It returns None (204), a dict, list, dataclass, pydantic model, number or bool (JSON), str
        (text), bytes, or an aiohttp response.

        Raises ValueError for a name or method that is no such thing, or a name that is taken, and
        TypeError for a function that takes other arguments.

        >>> integration = Integration()
        >>> @integration.webhook("ping", methods=["GET"])
        ... def ping() -> str:
        ...     return "pong"
        >>> sorted(integration.webhooks)
        ['ping']
        """
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"The webhook name {name!r} must be 1 to 100 letters, digits, '-', '_' or '.', not starting with a mark"
            )
        if name in self.webhooks:
            raise ValueError(f"There are two webhooks with the name {name!r}; give one another name")
        allowed = frozenset({methods} if isinstance(methods, str) else methods)
        if not allowed or not allowed <= _METHODS:
            raise ValueError(f"The methods of webhook {name!r} must be some of {', '.join(sorted(_METHODS))}")

        def register(handler: F) -> F:
            self.webhooks[name] = Webhook(
                name=name,
                methods=allowed,
                handler=handler,
                is_async=_is_async(handler),
                arguments=_arguments(name, handler),
                connection=connection,
            )
            return handler

        return register


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004  (an object with an async __call__)
    )


def _arguments(name: str, handler: Handler) -> int:
    signature = inspect.signature(handler)
    for count in (2, 1, 0):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise TypeError(
        f"The function of webhook {name!r} must take (ctx, request), (ctx) or nothing, not {signature}"
    )
