"""Watching an organisation: its changes as server-sent events."""

from tieline_api.auth.permissions import Permission, permission
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import watching as rest
from tieline_api.watching import stream

_KINDS = {
    "project": "projects",
    "version": "projectversions",
    "connection": "connections",
    "system": "systems",
    "connectionTemplate": "connectiontemplates",
    "user": "endusers",
    "activation": "activations",
    "connector": "connectors",
    "connectorVersion": "connectorversions",
    "notificationChannel": "notificationchannels",
    "notification": "notifications",
    "apiKey": "apikeys",
    "run": "projects",
    "issue": "projects",
}
"""What a caller must be allowed to list to see changes of a kind."""

_LEAST_CHECK_SECONDS = 0.5

OPERATIONS = Operations("Watching")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/watch",
    id="watchOrganisation",
    summary="Watch an organisation",
    permissions=permission("list", "projects"),
    streams=True,
)
async def watch_organisation(call: Call[None, None]) -> Reply[rest.WatchEvent]:
    """Streams changes as server-sent events. An event names the objects and runs that changed, without their content.

    The data of each event is a JSON object. Kinds that the caller may not list are left out. The stream ends with the
    session or the permission, and after 15 minutes at the latest. After each ``begin`` and ``reset``, read again what
    you show.
    """
    platform, caller = call.platform, call.caller
    if call.recheck is None:
        raise LookupError("The operation streams: its row says so")

    async def may_see(kind: str) -> bool:
        return await platform.access.allowed(caller, call.namespace, Permission("list", _KINDS[kind]))

    standing = stream.Standing(
        check=call.recheck,
        may_see=may_see,
        check_seconds=max(platform.settings.access_cache_seconds, _LEAST_CHECK_SECONDS),
        seconds=stream.LONGEST_SECONDS if call.session_seconds is None else call.session_seconds,
    )
    return Reply(
        response=stream.response(
            platform.changes, call.organisation, caller.key(), standing, platform.stopping
        )
    )
