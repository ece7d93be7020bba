"""A span for each outbound request, and its context for the called system."""

from functools import lru_cache

from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse
from yarl import URL

from tieline.tracing.spans import Tracer, Value
from tieline.tracing.w3c import outgoing


def traced(tracer: Tracer, *, template: str, connection_id: str = "") -> ClientMiddlewareType:
    """A client middleware; aiohttp calls it again for each redirect, which is a request of its own.

    It belongs outside of what authenticates: the URL that it sees has no credential in it yet, and what it
    adds is signed. Names are those of OpenTelemetry's conventions for HTTP clients.
    """

    async def send_traced(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
        attributes: dict[str, Value] = {
            "http.request.method": request.method,
            "server.address": request.url.host or "",
            "server.port": request.url.port or 0,
            "url.full": shown(request.url),
            "connection.template": template,
        }
        if connection_id:
            attributes["connection"] = connection_id
        with tracer.span(request.method, kind="CLIENT", attributes=attributes) as span:
            for name, value in outgoing(span.context).items():
                request.headers[name] = value
            response = await send(request)
            span.update({"http.response.status_code": response.status})
            if response.status >= 400:
                span.fail(str(response.status))
            return response

    return send_traced


@lru_cache(maxsize=512)
def shown(url: URL) -> str:
    """``url`` without what may be secret: user, password, fragment, and all that the query says.

    >>> shown(URL("https://user:secret@shop.example/orders?key=secret#part"))
    'https://shop.example/orders?***'
    """
    place = f"{url.scheme}://{url.host_port_subcomponent or ''}{url.raw_path}"
    return f"{place}?***" if url.raw_query_string else place
