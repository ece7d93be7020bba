"""Operations on notification channels and notifications."""

from dataclasses import replace

from tieline_api import cursors, errors
from tieline_api.auth.permissions import permission
from tieline_api.cluster import indexes
from tieline_api.cluster.etags import etag
from tieline_api.cluster.sorted_lists import position
from tieline_api.conversion import notifications as convert
from tieline_api.conversion.credential_plans import PlannedSecret
from tieline_api.conversion.lists import readable
from tieline_api.credentials.credential_secrets import made_for, new_edition, secret_name, secret_references
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.schemas import notifications as rest
from tieline_api.schemas.base import PageQuery
from tieline_api.views.project_lookup import require_environment, require_of_project, require_project
from tieline_core.identity.ids import new_id, object_id, object_name
from tieline_core.objects import Object
from tieline_core.resources.notification_channels import TEST_ANNOTATION
from tieline_core.resources.objects import NotificationChannelObject, NotificationObject, ProjectObject

CHANNELS = f"{ORGANISATION}/notification_channels"
NOTIFICATIONS = f"{PROJECT}/notifications"
PROJECT_ALONE = "/api/v2/projects/{project_id}"
"""The organisation is that of the project."""
_KIND = "NotificationChannel"
_PART = "channel"

OPERATIONS = Operations("Notifications")


@OPERATIONS.add(
    "POST",
    CHANNELS,
    id="createNotificationChannel",
    summary="Create a notification channel",
    permissions=permission("create", "notificationchannels"),
    link_sources={"channel_id": "/id"},
    success=201,
)
async def create_channel(call: Call[None, rest.NotificationChannelCreate]) -> Reply[rest.NotificationChannel]:
    """Creates a notification channel. Its secret is stored in a Kubernetes Secret and never returned."""
    platform, identifier = call.platform, new_id()
    owner = object_name(identifier)
    name = secret_name(_KIND, owner, _PART, new_edition())
    spec, values = convert.new_channel(call.body, name)
    secrets = [PlannedSecret(part=_PART, values=values, name=name)] if values else []
    async with platform.credentials.discarding(call.namespace, secrets):
        await platform.credentials.stage(call.namespace, made_for(_KIND, owner), secrets)
        obj = await platform.writer.create(
            platform.cluster.notification_channels, call.namespace, identifier, spec
        )
    await platform.credentials.adopt(obj, secrets)
    return Reply(body=convert.channel_to_rest(obj, organisation=call.organisation.id), etag=etag(obj))


@OPERATIONS.add(
    "GET",
    CHANNELS,
    id="listNotificationChannels",
    summary="List notification channels",
    permissions=permission("list", "notificationchannels"),
)
async def list_channels(call: Call[PageQuery, None]) -> Reply[rest.NotificationChannelPage]:
    """Returns a page of the organisation's notification channels, oldest first."""
    found = call.platform.cluster.notification_channels.list(call.namespace)
    page = cursors.cut(found, kind="notification-channels", position=position, **call.query.window)
    shown = readable(page.items, lambda obj: convert.channel_to_rest(obj, organisation=call.organisation.id))
    body = rest.NotificationChannelPage(
        total_count=page.total, items=shown.items, next=page.next, prev=page.prev
    )
    return Reply(body=body, warnings=shown.warnings)


@OPERATIONS.add(
    "PATCH",
    f"{CHANNELS}/{{channel_id}}",
    id="updateNotificationChannel",
    summary="Change a notification channel",
    permissions=permission("patch", "notificationchannels"),
    conditional=True,
)
async def update_channel(call: Call[None, rest.NotificationChannelUpdate]) -> Reply[rest.NotificationChannel]:
    """Changes the name of a channel, or where it delivers to. Its type stays, and so does its secret unless a new one
    is sent."""
    platform, body = call.platform, call.body
    cluster, credentials = platform.cluster, platform.credentials
    obj = cluster.require(cluster.notification_channels, call.namespace, call.path["channel_id"])
    owner = obj["metadata"]["name"]
    name = secret_name(_KIND, owner, _PART, new_edition())
    secrets: list[PlannedSecret] = []
    before: set[str] = set()
    sent: list[str] = []

    def change(live: NotificationChannelObject, mine: Object) -> None:
        before.update(secret_references(live))
        values, references = convert.change_channel(live, mine, body, name)
        secrets[:] = [PlannedSecret(part=_PART, values=values, name=name)] if values else []
        sent[:] = references

    async def stage() -> None:
        await platform.references.check(call.caller, obj, sent, staged=[one.name for one in secrets])
        await credentials.stage(call.namespace, made_for(_KIND, owner), secrets, owner=obj)

    async with credentials.discarding(call.namespace, secrets):
        changed = await platform.writer.change(
            cluster.notification_channels,
            call.namespace,
            owner,
            change,
            if_match=call.if_match,
            prepare=stage,
        )
    await credentials.remove(changed, before - secret_references(changed))
    return Reply(body=convert.channel_to_rest(changed, organisation=call.organisation.id), etag=etag(changed))


@OPERATIONS.add(
    "DELETE",
    f"{CHANNELS}/{{channel_id}}",
    id="deleteNotificationChannel",
    summary="Delete a notification channel that no notification uses",
    permissions=permission("delete", "notificationchannels"),
    errors=(409,),
    success=204,
)
async def delete_channel(call: Call[None, None]) -> Reply[None]:
    """Deletes a notification channel. The answer is 409 while notifications use it."""
    cluster = call.platform.cluster
    obj = cluster.require(cluster.notification_channels, call.namespace, call.path["channel_id"])
    name = obj["metadata"]["name"]
    users = await cluster.referring_now(cluster.notifications, "channelRef", call.namespace, name)
    if users:
        names = ", ".join(f'"{one["spec"]["name"]}" (id {object_id(one)})' for one in users[:5])
        more = f" and {len(users) - 5} more" if len(users) > 5 else ""
        raise errors.conflict(f"Notifications use the channel: delete {names}{more} first")
    await call.platform.writer.delete(cluster.notification_channels, obj)
    return Reply()


@OPERATIONS.add(
    "POST",
    f"{CHANNELS}/{{channel_id}}/test",
    id="testNotificationChannel",
    summary="Send a test message to a notification channel",
    permissions=permission("patch", "notificationchannels"),
)
async def test_channel(call: Call[None, None]) -> Reply[rest.NotificationChannel]:
    """Sends a test message. Delivery takes seconds, and is retried for five minutes. ``test`` and ``message`` of the
    channel show the result. Another request in that time replaces the message."""
    cluster = call.platform.cluster
    obj = cluster.require(cluster.notification_channels, call.namespace, call.path["channel_id"])
    identifier = new_id()

    def change(_live: NotificationChannelObject, mine: Object) -> None:
        mine["metadata"].setdefault("annotations", {})[TEST_ANNOTATION] = identifier

    changed = await call.platform.writer.change(
        cluster.notification_channels, call.namespace, obj["metadata"]["name"], change
    )
    return Reply(body=convert.channel_to_rest(changed, organisation=call.organisation.id), etag=etag(changed))


@OPERATIONS.add(
    "POST",
    NOTIFICATIONS,
    id="createNotification",
    summary="Create a notification",
    permissions=permission("create", "notifications"),
    link_sources={"notification_id": "/id"},
    link_parameters={"channel_id": "channel_id", "environment_id": "environment_id"},
    success=201,
)
async def create_notification(call: Call[None, rest.NotificationCreate]) -> Reply[rest.Notification]:
    """Notifies a channel of an environment's events: of each once when it begins, and once when it is over."""
    platform, body = call.platform, call.body
    cluster = platform.cluster
    project = require_project(call)
    fields = ("environment_id", "environment_id")
    environment = require_environment(project, identifier=body.environment_id, fields=fields)
    channel = _channel(call, body.channel_id)
    spec = convert.new_notification(body, project=project, environment=environment, channel=channel)
    obj = await platform.writer.create(cluster.notifications, call.namespace, new_id(), spec)
    return Reply(body=_shown(call, obj, project), etag=etag(obj))


@OPERATIONS.add(
    "GET",
    NOTIFICATIONS,
    id="listNotifications",
    summary="List notifications of a project",
    permissions=permission("list", "notifications"),
)
async def list_notifications(call: Call[PageQuery, None]) -> Reply[rest.NotificationPage]:
    """Returns a page of the project's notifications, oldest first, with what goes on in their environments."""
    cluster, project = call.platform.cluster, require_project(call)
    name = project["metadata"]["name"]
    found = cluster.notifications.by_index("project", indexes.key(call.namespace, name))
    kind = f"notifications/{object_id(project)}"
    page = cursors.cut(found, kind=kind, position=position, **call.query.window)
    shown = readable(page.items, lambda obj: _shown(call, obj, project))
    body = rest.NotificationPage(total_count=page.total, items=shown.items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=shown.warnings)


@OPERATIONS.add(
    "PATCH",
    f"{NOTIFICATIONS}/{{notification_id}}",
    id="updateNotification",
    summary="Change a notification",
    permissions=permission("patch", "notifications"),
    conditional=True,
)
async def update_notification(call: Call[None, rest.NotificationUpdate]) -> Reply[rest.Notification]:
    """Changes the name, the channel or the events of a notification. Its environment stays."""
    cluster, project, body = call.platform.cluster, require_project(call), call.body
    obj = require_of_project(call, cluster.notifications, project, call.path["notification_id"])
    channel = _channel(call, body.channel_id) if body.channel_id is not None else None

    def change(_live: NotificationObject, mine: Object) -> None:
        convert.change_notification(mine, body, channel)

    changed = await call.platform.writer.change(
        cluster.notifications, call.namespace, obj["metadata"]["name"], change, if_match=call.if_match
    )
    return Reply(body=_shown(call, changed, project), etag=etag(changed))


@OPERATIONS.add(
    "DELETE",
    f"{NOTIFICATIONS}/{{notification_id}}",
    id="deleteNotification",
    summary="Delete a notification",
    permissions=permission("delete", "notifications"),
    success=204,
)
async def delete_notification(call: Call[None, None]) -> Reply[None]:
    """Deletes a notification. Nothing more is sent, nor that something is over."""
    cluster = call.platform.cluster
    obj = require_of_project(call, cluster.notifications, require_project(call), call.path["notification_id"])
    await call.platform.writer.delete(cluster.notifications, obj)
    return Reply()


def _channel(call: AnyCall, identifier: str) -> NotificationChannelObject:
    cluster = call.platform.cluster
    channel = cluster.find(cluster.notification_channels, call.namespace, identifier)
    if channel is None:
        raise errors.invalid("channel_id", "is no notification channel of this organisation")
    return channel


def _shown(call: AnyCall, obj: NotificationObject, project: ProjectObject) -> rest.Notification:
    cluster = call.platform.cluster
    channel = cluster.referred(cluster.notification_channels, obj, "channelRef")
    return convert.notification_to_rest(obj, project=project, channel=channel)


OPERATIONS.rows += [
    replace(
        row,
        id=f"{row.id}OfProject",
        path=row.path.replace(PROJECT, PROJECT_ALONE),
        summary=f"{row.summary}, whose project names the organisation",
    )
    for row in OPERATIONS
    if row.path.startswith(NOTIFICATIONS)
]
