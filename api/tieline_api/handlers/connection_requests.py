"""Operations that send requests through connections."""

from contextlib import suppress

from aiohttp import web

from tieline_api import errors
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
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.schemas import connections as rest
from tieline_api.use_cases.connection_calls import send_through
from tieline_core.kubernetes import KubeError

TEST_SECONDS = 15.0
PROXY_SECONDS = 60.0
_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_NO_BODY = frozenset({204, 304})


async def check_connection(call: Call[None, rest.ConnectionTest]) -> Reply:
    """Sends a request through the connection with its credentials, and tells what came of it. Ok means that the system
    was reached and did not refuse the credentials. The test takes at most 15 s. Redirects within the system's origin
    are followed."""
    world = call.platform.world
    obj = world.need(world.connections, call.namespace, call.path["connection_id"])
    request = SystemRequest(
        method=call.body.method,
        path=checked_path(call.body.path),
        headers=sent_headers({}, ()),
        seconds=TEST_SECONDS,
        follows=True,
    )
    try:
        answer = await send_through(call, obj, request)
    except errors.ApiError as error:
        if error.status == 429:
            raise
        return Reply(body=rest.ConnectionTestResult(ok=False, message=error.message))
    ok, meaning = _meaning(answer.status)
    if ok:
        with suppress(KubeError):  # the test went well; pods tell it, too
            await call.platform.refusals.answered(obj, answer.status)
    return Reply(
        body=rest.ConnectionTestResult(
            ok=ok, status=answer.status, message=f"The system answered {answer.status}: {meaning}"
        )
    )


async def proxy_request(call: Call[None, None]) -> Reply:
    """Sends the request through the connection: its method, path, query, headers and body, with the connection's
    credentials. Headers for the API (Authorization, Cookie, X-API-Key, X-Tieline-…) and those about a connection are
    left out. Returns the system's answer, of at most 4 MiB, without headers that a browser would obey. Redirects are
    not followed. The answer has the header X-Tieline-Upstream-Status when it comes from the system. It is 504 when the
    system does not answer in 60 s, and 502 when it cannot be reached."""
    world, given = call.platform.world, call.request
    refuse_pages(given.headers)
    obj = world.need(world.connections, call.namespace, call.path["connection_id"])
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
    return Reply(
        response=web.Response(
            status=answer.status,
            headers=answered_headers(answer.status, answer.headers, answer.secrets),
            body=None if answer.status in _NO_BODY else masked(answer.body, answer.secrets),
        )
    )


def _meaning(status: int) -> tuple[bool, str]:
    """Whether a connection whose test was answered so works, and what to do."""
    if status in (401, 403):
        return False, (
            "it refuses the credentials, or they may not do this. Check them, or test with a path that they may read"
        )
    if status >= 500:
        return False, "it has an error of its own, so nothing is known of the credentials. Try again later"
    if status == 429:
        return True, "it did not refuse the credentials, and asks for fewer requests"
    if status >= 400:
        return True, (
            "it was reached and did not refuse the credentials, but it does not serve this request. "
            "Test with a path that needs them"
        )
    if status >= 300:
        return True, "it was reached, and leads elsewhere. Test with the path that it leads to"
    return True, "it was reached, and did not refuse the credentials"


OPERATIONS = (
    Operation(
        id="testConnection",
        method="POST",
        path=f"{CONNECTION}/test",
        summary="Test a connection",
        handler=check_connection,
        permissions=permission("patch", "connections"),
        body_optional=True,
        response=rest.ConnectionTestResult,
    ),
    *(
        Operation(
            id=f"proxy{method.capitalize()}",
            method=method,
            path=f"{CONNECTION}/proxy/{{path}}",
            summary=f"Send a {method} request through a connection",
            handler=proxy_request,
            permissions=permission("patch", "connections"),
            passes_on=True,
            errors=(409, 413, 415, 422, 502, 504),
        )
        for method in _METHODS
    ),
)
