"""Tieline's SDK: what integration code imports.

    from tieline import Context, Integration, Request

    integration = Integration()

    @integration.webhook("orders")
    async def orders(ctx: Context, request: Request) -> dict[str, str]:
        response = await ctx.fetch("shop", "/orders", method="POST", json=await request.json())
        return {"created": (await response.json())["id"]}

A plain ``def`` works too; it gets a SyncContext and a SyncRequest, whose calls need no ``await``.
"""

from aiohttp.web import Request, Response, StreamResponse

from tieline.configuration.snapshot import Activation, EndUser
from tieline.connectors.answers import UnexpectedAnswerError
from tieline.connectors.description import ConnectorDescriptionError, UnknownOperationError
from tieline.connectors.paging import NoPagesError
from tieline.connectors.requests import InvalidCallError
from tieline.context import Context, WebhookDelivery
from tieline.credentials import (
    AccessToken,
    ClientCertificate,
    Credentials,
    Login,
    OAuth1Token,
    SigningKey,
)
from tieline.errors import (
    CredentialError,
    CredentialsNotExposedError,
    DynamicTemplateError,
    ForeignOriginError,
    ForeignRedirectError,
    InvalidPathError,
    LimitReachedError,
    MissingCredentialError,
    NoConnectionOfUserError,
    RequestTimeoutError,
    TemplateNotLinkedError,
    TielineError,
    UnknownTemplateError,
    UnknownVariableError,
    UnsupportedAuthSchemeError,
    UpstreamError,
)
from tieline.events.event import Event
from tieline.events.publisher import UnknownTaskError
from tieline.events.queue import EventsUnavailableError, EventTooLargeError
from tieline.events.retry import Reject, Retry, RetryLater
from tieline.events.steps import StepsNotAvailableError, TooManyStepsError
from tieline.execution.background import TooMuchBackgroundWorkError
from tieline.http_client.session import Session
from tieline.integration import Integration
from tieline.patterns.bulk import BulkError, BulkResult
from tieline.patterns.incremental import IncrementalSync
from tieline.patterns.pagination import (
    CursorPages,
    LinkPages,
    NumberedPages,
    OffsetPages,
    PaginationError,
)
from tieline.scheduling.schedules import ScheduledRun
from tieline.state.activation_state import State, StateChangedError, StateEntry
from tieline.state.documents import StateRefusedError, StateUnavailableError
from tieline.sync import SyncContext, SyncRequest, SyncResponse, SyncState
from tieline.telemetry.logs import Log
from tieline.telemetry.spans import Span
from tieline.variables import Variables

__version__ = "0.1.0"

__all__ = [
    "AccessToken",
    "Activation",
    "BulkError",
    "BulkResult",
    "ClientCertificate",
    "ConnectorDescriptionError",
    "Context",
    "CredentialError",
    "Credentials",
    "CredentialsNotExposedError",
    "CursorPages",
    "DynamicTemplateError",
    "EndUser",
    "Event",
    "EventTooLargeError",
    "EventsUnavailableError",
    "ForeignOriginError",
    "ForeignRedirectError",
    "IncrementalSync",
    "Integration",
    "InvalidCallError",
    "InvalidPathError",
    "LimitReachedError",
    "LinkPages",
    "Log",
    "Login",
    "MissingCredentialError",
    "NoConnectionOfUserError",
    "NoPagesError",
    "NumberedPages",
    "OAuth1Token",
    "OffsetPages",
    "PaginationError",
    "Reject",
    "Request",
    "RequestTimeoutError",
    "Response",
    "Retry",
    "RetryLater",
    "ScheduledRun",
    "Session",
    "SigningKey",
    "Span",
    "State",
    "StateChangedError",
    "StateEntry",
    "StateRefusedError",
    "StateUnavailableError",
    "StepsNotAvailableError",
    "StreamResponse",
    "SyncContext",
    "SyncRequest",
    "SyncResponse",
    "SyncState",
    "TemplateNotLinkedError",
    "TielineError",
    "TooManyStepsError",
    "TooMuchBackgroundWorkError",
    "UnexpectedAnswerError",
    "UnknownOperationError",
    "UnknownTaskError",
    "UnknownTemplateError",
    "UnknownVariableError",
    "UnsupportedAuthSchemeError",
    "UpstreamError",
    "Variables",
    "WebhookDelivery",
]
