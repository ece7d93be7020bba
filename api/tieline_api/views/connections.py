"""Connections as answers show them."""

from tieline_api.conversion import connections as convert
from tieline_api.conversion.lists import readable
from tieline_api.credentials.tokens_in_use import ConnectionTokens
from tieline_api.cursors import Slice
from tieline_api.http.operation import AnyCall, Reply
from tieline_api.schemas import connections as rest
from tieline_api.views.credential_secrets import expiries_of, secret_of
from tieline_api.views.status_overlay import connection_with_findings, system_with_findings
from tieline_core.resources.objects import ConnectionObject, ConnectionTemplateObject


def connection_reply(
    call: AnyCall, obj: ConnectionObject, *, template: ConnectionTemplateObject | None = None
) -> rest.Connection:
    """The REST form of a connection, with what it refers to looked up.

    ``template`` is the one that it is used for, where that is not the one that it was created against. End users do not
    see which Secret of the organisation's has their credential, and what manages it.
    """
    cluster, is_own = call.platform.cluster, call.reach is not None
    found = ConnectionTokens(cluster, obj)
    system = found.system
    return convert.connection_to_rest(
        connection_with_findings(cluster, obj, system),
        organisation=call.organisation.id,
        system=system_with_findings(cluster, system) if system else None,
        template=template or cluster.referred(cluster.templates, obj, "connectionTemplateRef"),
        tokens=lambda credential: found.of(credential).secret,
        secret=lambda item: None if is_own else secret_of(cluster, obj, item),
        expires=expiries_of(cluster, obj),
    )


def page_of_connections(call: AnyCall, page: Slice[ConnectionObject]) -> Reply[rest.ConnectionPage]:
    """A page of connections, oldest first."""
    shown = readable(page.items, lambda obj: connection_reply(call, obj))
    body = rest.ConnectionPage(total_count=page.total, items=shown.items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=shown.warnings)
