"""Requests of GraphQL: errors are errors, and connections are read page by page."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import aiohttp

from tieline.errors import TielineError
from tieline.patterns.list_pages import DialectPages, PaginationError
from tieline.telemetry.redaction import Redactor
from tieline_protocol.list_dialects import ListDialect, ListKind

MAX_ERRORS = 100
_SHOWN = 3
_LONGEST = 500
_DEEPEST = 6
_CHANGING = re.compile(r"\b(mutation|subscription)\b")
_AFTER = re.compile(r"\bafter\s*:\s*\$([A-Za-z_][A-Za-z0-9_]*)")


class GraphQLError(TielineError):
    """A system answered a GraphQL request with errors, or with something else than GraphQL.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         return str(await ctx.graphql("shop", "{ order { id } }", url="/orders"))
    ...     except GraphQLError as error:
    ...         return str(error)
    >>> run(orders)
    "shop answered the GraphQL request without data and without errors: is this its endpoint? (there are: 'id', …"
    """

    def __init__(self, message: str, *, errors: list[Any] | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.errors = errors or []
        """The errors as the system sent them, 100 at most."""
        self.data = data
        """What it answered beside them; None for nothing."""


def _check_errors(template: str, body: Any, redact: Redactor) -> None:
    """Raises GraphQLError for an answer without data, and for errors, also beside data."""
    if not isinstance(body, dict) or ("data" not in body and not body.get("errors")):
        known = f" (there are: {', '.join(map(repr, sorted(body)[:10]))})" if isinstance(body, dict) else ""
        raise GraphQLError(
            f"{template} answered the GraphQL request without data and without errors: is this its endpoint?{known}"
        )
    errors = body.get("errors")
    if not errors:
        return
    listed = errors[:MAX_ERRORS] if isinstance(errors, list) else [errors]
    texts = [_text(error) for error in listed[:_SHOWN]]
    more = f", and {len(errors) - _SHOWN} more" if isinstance(errors, list) and len(errors) > _SHOWN else ""
    shown = redact.for_run("; ".join(texts), longest=_LONGEST)
    raise GraphQLError(
        f"{template} answered with errors: {shown}{more}", errors=listed, data=body.get("data")
    )


def _text(error: Any) -> str:
    """An error for people: its message, its code and where it is about."""
    if not isinstance(error, Mapping):
        return str(error)[:_LONGEST]
    extensions = error.get("extensions")
    code = (extensions.get("code") if isinstance(extensions, Mapping) else None) or error.get("type")
    path = error.get("path")
    at = f" at {'.'.join(map(str, path[:20]))}" if isinstance(path, list) and path else ""
    return f"{str(error.get('message') or 'no message')[:_LONGEST]}{f' ({code})' if code else ''}{at}"


class ConnectionPages(DialectPages):
    """The pages of a connection: the next cursor is the value of the variable that the query gives to ``after``."""

    def __init__(self, query: str, items: str | None) -> None:
        """``items`` is the place of the connection in the data; None: there is one alone. Raises PaginationError."""
        found = _AFTER.search(query)
        if found is None:
            raise PaginationError(
                "The query has no argument after: $name, by which the next page is asked for; write it as in "
                "query ($after: String) { orders(first: 100, after: $after) "
                "{ nodes { id } pageInfo { hasNextPage endCursor } } }"
            )
        self._is_named = items is not None
        super().__init__(ListDialect(kind=ListKind.GRAPHQL, items=f"data.{items or ''}", parameter=found[1]))

    def list_in(self, body: Any) -> Any:
        """The items of the connection; see DialectPages."""
        if not self._is_named:
            self.dialect = replace(self.dialect, items=f"data.{connection_in(body)}")
        return super().list_in(body)


def is_safe(query: str) -> bool:
    """Whether a request may be sent again after a lost connection: it changes nothing."""
    return _CHANGING.search(query) is None


def connection_in(body: Any) -> str:
    """Where an answer has its one connection: the object with a ``pageInfo`` that is closest to the top.

    >>> connection_in({"data": {"shop": {"orders": {"nodes": [], "pageInfo": {}}}}})
    'shop.orders'
    """
    level = [("", body.get("data") if isinstance(body, dict) else None)]
    for _ in range(_DEEPEST):
        found = [
            path
            for path, value in level
            if isinstance(value, dict) and isinstance(value.get("pageInfo"), dict)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise PaginationError(
                f"The answer has several connections ({', '.join(found)}): name one in items="
            )
        level = [
            (f"{path}.{name}" if path else str(name), inner)
            for path, value in level
            if isinstance(value, dict)
            for name, inner in value.items()
        ]
    raise PaginationError("The query asks for no connection with pageInfo { hasNextPage endCursor }")


async def checked(template: str, response: aiohttp.ClientResponse, redact: Redactor) -> dict[str, Any]:
    """The body of an answer that has no errors. Raises UpstreamError, RateLimitedError or GraphQLError."""
    response.raise_for_status()
    try:
        body = await response.json(content_type=None)
    except ValueError:
        raise GraphQLError(f"{template} answered the GraphQL request with something else than JSON") from None
    _check_errors(template, body, redact)
    found: dict[str, Any] = body
    return found
