"""Requests through a connection: what pods would receive of it, and tokens that hold now."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from tieline_api import errors
from tieline_api.cluster import revisions
from tieline_api.connection_requests.client import SystemAnswer, SystemRequest, redactor_of
from tieline_api.connection_requests.forwarding import shown_text
from tieline_api.connection_requests.tokens import FreshToken
from tieline_api.conversion.connections import scheme_item
from tieline_api.conversion.times import expired
from tieline_api.credentials.outcome_reports import RequestOutcome, Verdict, verdict_of
from tieline_api.dependencies import Dependencies
from tieline_api.http.operation import AnyCall
from tieline_api.pod_api.configuration import connection_body
from tieline_api.pod_api.tokens import access_token, token_body
from tieline_core.credentials.validation.credential_findings import OAUTH2
from tieline_core.identity.ids import credential_id, object_id
from tieline_core.kubernetes import KubeError
from tieline_core.objects import Json
from tieline_core.resources.objects import ConnectionObject

logger = logging.getLogger(__name__)


SILENT = frozenset({407, 408, 421, 425, 429})
"""Statuses that say nothing about the credentials: of proxies, time-outs and limits."""
_FORBIDDEN = 403
_NOT_SENT = frozenset({409, 429})
"""Statuses of requests that the platform itself refuses, before they are sent."""


async def send_through(
    call: AnyCall, connection: ConnectionObject, request: SystemRequest, *, records: bool = True
) -> SystemAnswer:
    """The system's answer; the log tells who sent what. Raises ApiError as ConnectionRequests does.

    ``records``: the connection's state follows from the answer.
    """
    platform = call.platform
    status, answered, body = 0, False, connection_body(platform.cluster, connection)
    try:
        answer = await platform.connection_requests.send(
            call.organisation.id,
            body,
            request,
            fresh=_fresh_tokens(platform, connection),
            end_user=call.caller.end_user.external_id if call.caller.end_user else "",
        )
        status, answered = answer.status, True
        if records:
            await _record(platform, connection, answer)
        return answer
    except errors.ApiError as error:
        status = error.status
        raise
    finally:
        if answered or status not in _NOT_SENT:
            _note(body, request)
        logger.info(
            "A request through a connection",
            extra={
                "user": call.caller.username,
                "organisation": call.organisation.id,
                "object": f"{connection['metadata']['namespace']}/{connection['metadata']['name']}",
                "method": request.method,
                "path": request.path.partition("?")[0],
                "status": status,
            },
        )


def _note(connection: Json, request: SystemRequest) -> None:
    """Notes a request for the audit, without the secrets that the connection may put into its URL."""
    redact = redactor_of(connection)
    host = urlsplit(str(connection["baseUrl"])).netloc.rpartition("@")[2]
    path = request.path.partition("?")[0]
    revisions.sent(revisions.SentRequest(request.method, redact(host), redact(path)))


async def _record(platform: Dependencies, connection: ConnectionObject, answer: SystemAnswer) -> None:
    # A system may forbid this one request with 403.
    status = answer.meant
    if status >= 500 or status == _FORBIDDEN or status in SILENT:
        return
    verdict, said = verdict_of(status), ""
    if verdict is Verdict.REFUSED:
        said = await shown_text(answer.body, answer.headers.get("Content-Type", ""), answer.redact)
    outcome = RequestOutcome(status=status, verdict=verdict, said=said)
    with suppress(KubeError):  # the answer is passed on all the same
        await platform.outcomes.answered(connection, outcome)


def _fresh_tokens(platform: Dependencies, connection: ConnectionObject) -> FreshToken:
    """Tokens of the connection's credentials, as pods ask for them; ApiError where none can be had at first."""
    identifier, now = object_id(connection), datetime.now(UTC)
    system = platform.cluster.referred(platform.cluster.systems, connection, "systemRef")
    items = {
        credential_id(identifier, item): item
        for item in connection["spec"].get("credentials") or ()
        if item["type"] in OAUTH2 and scheme_item(item, system) is not None and not expired(item, now)
    }

    async def fresh(credential: str, rejected: str) -> Mapping[str, Any] | None:
        item = items.get(credential)
        if item is None:
            return None
        try:
            tokens = await access_token(platform, connection, item, rejected=rejected)
        except errors.ApiError:
            if rejected:
                return None  # the answer tells that it was refused
            raise
        return token_body(tokens) if tokens is not None else None

    return fresh
