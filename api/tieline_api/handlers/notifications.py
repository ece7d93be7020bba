"""Operations on notification channels and notifications."""

from dataclasses import replace
from typing import Any

from tieline_api import cursors, errors
from tieline_api.auth.permissions import permission
from tieline_api.cache import indexes
from tieline_api.cache.sorted_lists import position
from tieline_api.conversion import notifications as convert
from tieline_api.conversion.connections import PlannedSecret
from tieline_api.conversion.lists import readable
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.schemas import notifications as rest
from tieline_api.schemas.base import PageQuery
from tieline_api.store.credential_secrets import made_for, new_edition, secret_name
from tieline_api.store.etags import etag
from tieline_api.use_cases.project_lookup import need_environment, need_of_project, need_project
from tieline_core.identity.ids import new_id, object_id, object_name
from tieline_core.objects import Object

CHANNELS = f"{ORGANISATION}/notification_channels"
NOTIFICATIONS = f"{PROJECT}/notifications"
PROJECT_ALONE = "/api/v2/projects/{project_id}"
"""The organisation is that of the project."""
_KIND = "NotificationChannel"
_PART = "channel"


async def create_channel(call: Call[None, rest.NotificationChannelCreate]) -> Reply:
    """Creates a notification channel. Its secret is stored in a Kubernetes Secret and never returned."""
    platform, identifier = call.platform, new_id()
    owner = object_name(identifier)
    name = secret_name(_KIND, owner, _PART, new_edition())
    spec, values = convert.new_channel(call.body, name)
    secrets = [PlannedSecret(part=_PART, values=values, name=name)] if values else []
    async with platform.credentials.discarding(call.namespace, secrets):
        await platform.credentials.stage(call.namespace, made_for(_KIND, owner), secrets)
        obj = await platform.writer.create(
            platform.world.notification_channels, call.namespace, identifier, spec
        )
    await platform.credentials.adopt(obj, secrets)
    return Reply(body=convert.channel_to_rest(obj), etag=etag(obj))


async def list_channels(call: Call[PageQuery, None]) -> Reply:
    """Returns a page of the organisation's notification channels, oldest first."""
    found = call.platform.world.notification_channels.list(call.namespace)
    page = cursors.cut(found, kind="notification-channels", position=position, **call.query.window)
    shown = readable(page.items, convert.channel_to_rest)
    body = rest.NotificationChannelPage(
        total_count=page.total, items=shown.items, next=page.next, prev=page.prev
    )
    return Reply(body=body, warnings=shown.warnings)


async def delete_channel(call: Call[None, None]) -> Reply:
    """Deletes a notification channel. The answer is 409 while notifications use it."""
    world = call.platform.world
    obj = world.need(world.notification_channels, call.namespace, call.path["channel_id"])
    name = obj["metadata"]["name"]
    users = await world.referring_now(world.notifications, "channelRef", call.namespace, name)
    if users:
        names = ", ".join(f'"{one["spec"]["name"]}" (id {object_id(one)})' for one in users[:5])
        more = f" and {len(users) - 5} more" if len(users) > 5 else ""
        raise errors.conflict(f"Notifications use the channel: delete {names}{more} first")
    await call.platform.writer.delete(world.notification_channels, obj)
    return Reply()


async def create_notification(call: Call[None, rest.NotificationCreate]) -> Reply:
    """Has an environment's events told to a channel: each once when it begins, and once when it is over."""
    platform, body = call.platform, call.body
    world = platform.world
    project = need_project(call)
    fields = ("environment_id", "environment_id")
    environment = need_environment(project, identifier=body.environment_id, fields=fields)
    channel = world.find(world.notification_channels, call.namespace, body.channel_id)
    if channel is None:
        raise errors.invalid("channel_id", "is no notification channel of this organisation")
    spec = convert.new_notification(body, project=project, environment=environment, channel=channel)
    obj = await platform.writer.create(world.notifications, call.namespace, new_id(), spec)
    return Reply(body=_shown(call, obj, project), etag=etag(obj))


async def list_notifications(call: Call[PageQuery, None]) -> Reply:
    """Returns a page of the project's notifications, oldest first, with what goes on in their environments."""
    world, project = call.platform.world, need_project(call)
    name = project["metadata"]["name"]
    found = world.notifications.by_index("project", indexes.key(call.namespace, name))
    kind = f"notifications/{object_id(project)}"
    page = cursors.cut(found, kind=kind, position=position, **call.query.window)
    shown = readable(page.items, lambda obj: _shown(call, obj, project))
    body = rest.NotificationPage(total_count=page.total, items=shown.items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=shown.warnings)


async def delete_notification(call: Call[None, None]) -> Reply:
    """Deletes a notification. Nothing more is told, nor that something is over."""
    world = call.platform.world
    obj = need_of_project(call, world.notifications, need_project(call), call.path["notification_id"])
    await call.platform.writer.delete(world.notifications, obj)
    return Reply()


def _shown(call: Call[Any, Any], obj: Object, project: Object) -> rest.Notification:
    world = call.platform.world
    channel = world.referred(world.notification_channels, obj, "channelRef")
    return convert.notification_to_rest(obj, project=project, channel=channel)


_IN_ORGANISATION = (
    Operation(
        id="createNotification",
        method="POST",
        path=NOTIFICATIONS,
        summary="Create a notification",
        handler=create_notification,
        permissions=permission("create", "notifications"),
        link_sources={"notification_id": "/id"},
        link_parameters={"channel_id": "channel_id", "environment_id": "environment_id"},
        success=201,
        response=rest.Notification,
    ),
    Operation(
        id="listNotifications",
        path=NOTIFICATIONS,
        summary="List notifications of a project",
        handler=list_notifications,
        permissions=permission("list", "notifications"),
        response=rest.NotificationPage,
    ),
    Operation(
        id="deleteNotification",
        method="DELETE",
        path=f"{NOTIFICATIONS}/{{notification_id}}",
        summary="Delete a notification",
        handler=delete_notification,
        permissions=permission("delete", "notifications"),
        success=204,
    ),
)
_BY_PROJECT = tuple(
    replace(
        row,
        id=f"{row.id}OfProject",
        path=row.path.replace(PROJECT, PROJECT_ALONE),
        summary=f"{row.summary}, whose project names the organisation",
    )
    for row in _IN_ORGANISATION
)

OPERATIONS = (
    Operation(
        id="createNotificationChannel",
        method="POST",
        path=CHANNELS,
        summary="Create a notification channel",
        handler=create_channel,
        permissions=permission("create", "notificationchannels"),
        link_sources={"channel_id": "/id"},
        success=201,
        response=rest.NotificationChannel,
    ),
    Operation(
        id="listNotificationChannels",
        path=CHANNELS,
        summary="List notification channels",
        handler=list_channels,
        permissions=permission("list", "notificationchannels"),
        response=rest.NotificationChannelPage,
    ),
    Operation(
        id="deleteNotificationChannel",
        method="DELETE",
        path=f"{CHANNELS}/{{channel_id}}",
        summary="Delete a notification channel that no notification uses",
        handler=delete_channel,
        permissions=permission("delete", "notificationchannels"),
        errors=(409,),
        success=204,
    ),
    *_IN_ORGANISATION,
    *_BY_PROJECT,
)
