"""A span for each outbound request, and its context for the called system."""

from collections.abc import Mapping
from functools import lru_cache

from aiohttp import ClientRequest
from yarl import URL

from tieline.telemetry.spans import MAX_VALUE_LENGTH, Span, Tracer, Value
from tieline.telemetry.trace_context import outgoing


def sending(tracer: Tracer, request: ClientRequest, *, template: str, connection_id: str) -> Span:
    """The span of ``request``, which tells the called system of it.

    It is made before the request is authenticated: the URL has no credential in it yet, and what is added to the
    headers here is signed with the rest. Names are those of OpenTelemetry's conventions for HTTP clients.
    """
    span = tracer.span(request.method, kind="CLIENT")
    attributes = span.attributes
    attributes["http.request.method"] = span.name
    attributes.update(_address_attributes(request.url))
    if len(str(attributes["url.full"])) > MAX_VALUE_LENGTH:
        attributes["url.full"] = tracer.redact.for_run(str(attributes["url.full"]), longest=MAX_VALUE_LENGTH)
    attributes["connection.template"] = template
    if connection_id:
        attributes["connection"] = connection_id
    request.headers.update(outgoing(span.context))
    return span


def answered(span: Span, status: int) -> None:
    """Tell in ``span`` how its request was answered."""
    span.attributes["http.response.status_code"] = status
    if status >= 400:
        span.fail(str(status))


# Most code asks for the same few URLs again and again.
@lru_cache(maxsize=512)
def _address_attributes(url: URL) -> Mapping[str, Value]:
    return {
        "server.address": (url.host or "")[:MAX_VALUE_LENGTH],
        "server.port": url.port or 0,
        "url.full": shown(url),
    }


def shown(url: URL) -> str:
    """``url`` without what may be secret: user, password, fragment, and all that the query says.

    >>> shown(URL("https://user:secret@shop.example/orders?key=secret#part"))
    'https://shop.example/orders?***'
    """
    address = f"{url.scheme}://{url.host_port_subcomponent or ''}{url.raw_path}"
    return f"{address}?***" if url.raw_query_string else address
