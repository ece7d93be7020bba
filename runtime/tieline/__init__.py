"""Tieline's SDK: what integration code imports.

    from tieline import Context, Integration, Request

    integration = Integration()

    @integration.webhook("orders")
    async def orders(ctx: Context, request: Request) -> dict[str, str]:
        response = await ctx.fetch("shop", "/orders", method="POST", json=await request.json())
        return {"created": (await response.json())["id"]}

A plain ``def`` works too; it gets a SyncContext and a SyncRequest, whose calls need no ``await``.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        RateLimitedError,
        RequestTimeoutError,
        TemplateNotLinkedError,
        TielineError,
        UnknownTemplateError,
        UnknownVariableError,
        UnsupportedAuthSchemeError,
        UpstreamError,
    )
    from tieline.events.batch import Batch
    from tieline.events.cancel_on import CancelOn
    from tieline.events.debounce import Debounce
    from tieline.events.event import Event
    from tieline.events.publish_many import EventsNotStoredError, NewEvent
    from tieline.events.publisher import UnknownTaskError
    from tieline.events.queue import EventsUnavailableError, EventTooLargeError
    from tieline.events.retry import Reject, Retry, RetryLater
    from tieline.events.run_approvals import ApprovalAnswer
    from tieline.events.run_children import ChildRunError, ChildRunRefusedError
    from tieline.events.run_events import UndeclaredWaitError
    from tieline.events.run_signals import Signal
    from tieline.events.steps import StepsNotAvailableError, TooManyStepsError
    from tieline.events.throttle import Throttle
    from tieline.execution.background import TooMuchBackgroundWorkError
    from tieline.http_client.session import Session
    from tieline.integration import Accepted, Integration
    from tieline.patterns.bulk import BulkError, BulkResult
    from tieline.patterns.graphql import GraphQLError
    from tieline.patterns.incremental import IncrementalSync
    from tieline.patterns.list_pages import PaginationError
    from tieline.patterns.pagination import CursorPages, LinkPages, NoDialectError, NumberedPages, OffsetPages
    from tieline.scheduling.schedules import ScheduledRun
    from tieline.state.activation_state import State, StateChangedError, StateEntry
    from tieline.state.documents import StateRefusedError, StateUnavailableError
    from tieline.sync import SyncContext, SyncRequest, SyncResponse, SyncState
    from tieline.telemetry.logs import Log
    from tieline.telemetry.spans import Span
    from tieline.variables import Variables

__version__ = "0.1.0"

__all__ = [
    "Accepted",
    "AccessToken",
    "Activation",
    "ApprovalAnswer",
    "Batch",
    "BulkError",
    "BulkResult",
    "CancelOn",
    "ChildRunError",
    "ChildRunRefusedError",
    "ClientCertificate",
    "ConnectorDescriptionError",
    "Context",
    "CredentialError",
    "Credentials",
    "CredentialsNotExposedError",
    "CursorPages",
    "Debounce",
    "DynamicTemplateError",
    "EndUser",
    "Event",
    "EventTooLargeError",
    "EventsNotStoredError",
    "EventsUnavailableError",
    "ForeignOriginError",
    "ForeignRedirectError",
    "GraphQLError",
    "IncrementalSync",
    "Integration",
    "InvalidCallError",
    "InvalidPathError",
    "LimitReachedError",
    "LinkPages",
    "Log",
    "Login",
    "MissingCredentialError",
    "NewEvent",
    "NoConnectionOfUserError",
    "NoDialectError",
    "NoPagesError",
    "NumberedPages",
    "OAuth1Token",
    "OffsetPages",
    "PaginationError",
    "RateLimitedError",
    "Reject",
    "Request",
    "RequestTimeoutError",
    "Response",
    "Retry",
    "RetryLater",
    "ScheduledRun",
    "Session",
    "Signal",
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
    "Throttle",
    "TielineError",
    "TooManyStepsError",
    "TooMuchBackgroundWorkError",
    "UndeclaredWaitError",
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

# Names are imported when they are first used: the command line and pods load only what they use.
_MODULES: Mapping[str, tuple[str, ...]] = {
    "aiohttp.web": ("Request", "Response", "StreamResponse"),
    "tieline.configuration.snapshot": ("Activation", "EndUser"),
    "tieline.connectors.answers": ("UnexpectedAnswerError",),
    "tieline.connectors.description": ("ConnectorDescriptionError", "UnknownOperationError"),
    "tieline.connectors.paging": ("NoPagesError",),
    "tieline.connectors.requests": ("InvalidCallError",),
    "tieline.context": ("Context", "WebhookDelivery"),
    "tieline.credentials": (
        "AccessToken",
        "ClientCertificate",
        "Credentials",
        "Login",
        "OAuth1Token",
        "SigningKey",
    ),
    "tieline.errors": (
        "CredentialError",
        "CredentialsNotExposedError",
        "DynamicTemplateError",
        "ForeignOriginError",
        "ForeignRedirectError",
        "InvalidPathError",
        "LimitReachedError",
        "MissingCredentialError",
        "NoConnectionOfUserError",
        "RateLimitedError",
        "RequestTimeoutError",
        "TemplateNotLinkedError",
        "TielineError",
        "UnknownTemplateError",
        "UnknownVariableError",
        "UnsupportedAuthSchemeError",
        "UpstreamError",
    ),
    "tieline.events.batch": ("Batch",),
    "tieline.events.cancel_on": ("CancelOn",),
    "tieline.events.debounce": ("Debounce",),
    "tieline.events.event": ("Event",),
    "tieline.events.publish_many": ("EventsNotStoredError", "NewEvent"),
    "tieline.events.publisher": ("UnknownTaskError",),
    "tieline.events.queue": ("EventsUnavailableError", "EventTooLargeError"),
    "tieline.events.retry": ("Reject", "Retry", "RetryLater"),
    "tieline.events.run_approvals": ("ApprovalAnswer",),
    "tieline.events.run_children": ("ChildRunError", "ChildRunRefusedError"),
    "tieline.events.run_events": ("UndeclaredWaitError",),
    "tieline.events.run_signals": ("Signal",),
    "tieline.events.steps": ("StepsNotAvailableError", "TooManyStepsError"),
    "tieline.events.throttle": ("Throttle",),
    "tieline.execution.background": ("TooMuchBackgroundWorkError",),
    "tieline.http_client.session": ("Session",),
    "tieline.integration": ("Accepted", "Integration"),
    "tieline.patterns.bulk": ("BulkError", "BulkResult"),
    "tieline.patterns.graphql": ("GraphQLError",),
    "tieline.patterns.incremental": ("IncrementalSync",),
    "tieline.patterns.list_pages": ("PaginationError",),
    "tieline.patterns.pagination": (
        "CursorPages",
        "LinkPages",
        "NoDialectError",
        "NumberedPages",
        "OffsetPages",
    ),
    "tieline.scheduling.schedules": ("ScheduledRun",),
    "tieline.state.activation_state": ("State", "StateChangedError", "StateEntry"),
    "tieline.state.documents": ("StateRefusedError", "StateUnavailableError"),
    "tieline.sync": ("SyncContext", "SyncRequest", "SyncResponse", "SyncState"),
    "tieline.telemetry.logs": ("Log",),
    "tieline.telemetry.spans": ("Span",),
    "tieline.variables": ("Variables",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
