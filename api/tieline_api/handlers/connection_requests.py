"""Operations that send requests through connections."""

import asyncio

from aiohttp import web

from tieline_api.auth.permissions import permission
from tieline_api.connection_requests.client import SystemRequest
from tieline_api.connection_requests.forwarding import (
    answered_headers,
    checked_path,
    masked,
    refuse_pages,
    sent_headers,
)
from tieline_api.handlers.connections import CONNECTION
from tieline_api.http.operation import Call, Operations, Reply
from tieline_api.schemas import connections as rest
from tieline_api.use_cases import end_user_checks
from tieline_api.use_cases.connection_calls import send_through
from tieline_api.use_cases.connection_checks import run_test

PROXY_SECONDS = 60.0
_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_NO_BODY = frozenset({204, 304})

OPERATIONS = Operations("Connections")


@OPERATIONS.add(
    "POST",
    f"{CONNECTION}/test",
    id="testConnection",
    summary="Test a connection",
    permissions=permission("patch", "connections"),
    end_user=end_user_checks.checked_connection,
    body_optional=True,
)
async def check_connection(call: Call[None, rest.ConnectionTest]) -> Reply[rest.ConnectionTestResult]:
    """Sends a request through the connection with its credentials, and says what came of it. Without a body this is
    the check request of the system, where it has one. The connection's state follows from the result. The test takes
    at most 15 s. Redirects within the system's origin are followed."""
    cluster = call.platform.cluster
    obj = cluster.require(cluster.connections, call.namespace, call.path["connection_id"])
    return Reply(body=await run_test(call, obj, call.body))


async def proxy_request(call: Call[None, None]) -> Reply[None]:
    """Sends the request through the connection: its method, path, query, headers and body, with the connection's
    credentials. Headers for the API (Authorization, Cookie, X-API-Key, X-Tieline-…) and those about a connection are
    left out. Returns the system's answer, of at most 4 MiB, without headers that a browser would obey. Redirects are
    not followed. The answer has the header X-Tieline-Upstream-Status when it comes from the system. It is 504 when the
    system does not answer in 60 s, and 502 when it cannot be reached, or when its answer cannot be searched for the
    connection's secrets."""
    cluster, given = call.platform.cluster, call.request
    refuse_pages(given.headers)
    obj = cluster.require(cluster.connections, call.namespace, call.path["connection_id"])
    answer = await send_through(
        call,
        obj,
        SystemRequest(
            method=given.method,
            path=checked_path(given.path if given.path.startswith("?") else f"/{given.path}"),
            headers=sent_headers(given.headers, given.headers.getall("Connection", ())),
            body=call.raw,
            seconds=PROXY_SECONDS,
        ),
    )
    content_type = answer.headers.get("Content-Type", "")
    return Reply(
        response=web.Response(
            status=answer.status,
            headers=answered_headers(answer.status, answer.headers, answer.redact),
            body=None
            if answer.status in _NO_BODY
            else await asyncio.to_thread(masked, answer.body, content_type, answer.redact),
        )
    )


for _method in _METHODS:
    OPERATIONS.add(
        _method,
        f"{CONNECTION}/proxy/{{path}}",
        id=f"proxy{_method.capitalize()}",
        summary=f"Send a {_method} request through a connection",
        permissions=permission("patch", "connections"),
        proxies=True,
        errors=(409, 413, 415, 422, 502, 504),
    )(proxy_request)
