"""Operations on systems and their auth schemes."""

from typing import cast

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.auth.secret_access import merged, secrets_sent
from tieline_api.cluster import sorted_lists
from tieline_api.cluster.etags import etag
from tieline_api.cluster.writer import change_limits, change_map, change_part, refuse_removal, set_or_drop
from tieline_api.conversion import auth_schemes as schemes
from tieline_api.conversion import systems as convert
from tieline_api.conversion.credential_plans import PlannedSecret
from tieline_api.conversion.lists import readable
from tieline_api.credentials.credential_secrets import made_for, new_edition, secret_name, secret_references
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.schemas import systems as rest
from tieline_api.schemas.auth_schemes import SUB_OBJECTS, AuthSchemeConfig
from tieline_api.schemas.base import SearchQuery
from tieline_api.views.status_overlay import system_with_findings
from tieline_api.views.system_connectors import connector_reference, system_shown
from tieline_core.identity.ids import new_id, object_id, object_name
from tieline_core.objects import Object
from tieline_core.resources.objects import ConnectionObject, ConnectionTemplateObject, SystemObject
from tieline_core.systems import filled, is_from_connector

SYSTEM = f"{ORGANISATION}/systems/{{system_id}}"
SCHEME = f"{SYSTEM}/auth-scheme-configs/{{id}}"
_KIND = "System"

OPERATIONS = Operations("Systems")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/systems",
    id="listSystems",
    summary="List systems",
    permissions=permission("list", "systems"),
    key_as_bearer=True,
)
async def list_systems(call: Call[SearchQuery, None]) -> Reply[rest.SystemPage]:
    """Returns a page of the organisation's systems, oldest first."""
    rows = call.platform.cluster.ordered.systems.rows(call.namespace, search=call.query.search)
    page = sorted_lists.page(rows, kind="systems", **call.query.window)
    cluster, organisation = call.platform.cluster, call.organisation.id
    shown = readable(
        page.items,
        lambda obj: system_shown(cluster, obj, organisation=organisation),
    )
    body = rest.SystemPage(total_count=page.total, items=shown.items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=shown.warnings)


@OPERATIONS.add(
    "GET",
    SYSTEM,
    id="getSystem",
    summary="Get a system",
    permissions=permission("get", "systems"),
    conditional=True,
)
async def get_system(call: Call[None, None]) -> Reply[rest.System]:
    """Returns a system with its auth schemes and the findings about them."""
    obj = call.platform.cluster.require(call.platform.cluster.systems, call.namespace, call.path["system_id"])
    return _system(call, obj)


@OPERATIONS.add(
    "POST",
    f"{ORGANISATION}/systems",
    id="createSystem",
    summary="Create a new system",
    permissions=permission("create", "systems"),
    link_sources={"system_id": "/id"},
    success=201,
)
async def create_system(call: Call[None, rest.SystemCreate]) -> Reply[rest.System]:
    """Creates a system. Client secrets of its auth schemes are stored in Kubernetes Secrets and never returned."""
    _refuse_duplicates(call.body.auth_scheme_configs)
    identifier = new_id()
    connector = connector_reference(call, call.body.connector_ref)
    spec = convert.new_system_spec(call.body, connector=connector)
    secrets, owner, edition = [], object_name(identifier), new_edition()
    for config, item in zip(call.body.auth_scheme_configs, spec["authSchemeConfigs"], strict=True):
        secrets += _plan_secret(owner, config, item, edition)
    platform = call.platform
    async with platform.credentials.discarding(call.namespace, secrets):
        await platform.credentials.stage(call.namespace, made_for(_KIND, owner), secrets)
        obj = await platform.writer.create(platform.cluster.systems, call.namespace, identifier, spec)
    await platform.credentials.adopt(obj, secrets)
    return _system(call, obj)


@OPERATIONS.add(
    "PUT",
    SYSTEM,
    id="updateSystem",
    summary="Update a system",
    permissions=permission("patch", "systems"),
    success=201,
    conditional=True,
)
async def update_system(call: Call[None, rest.SystemUpdate]) -> Reply[rest.System]:
    """Updates everything but the auth schemes. Absent fields do not change."""
    cluster = call.platform.cluster
    obj = cluster.require(cluster.systems, call.namespace, call.path["system_id"])
    changes = convert.system_changes(call.body)
    if call.body.connector_ref is not None:
        changes["connectorRef"] = connector_reference(call, call.body.connector_ref)

    def change(live: SystemObject, mine: Object) -> None:
        for field, value in changes.items():
            if not value and field in live["spec"]:
                refuse_removal(live, (field,), what=f"The field {field}")
            set_or_drop(mine["spec"], field, value)
        change_map(live, mine, "variables", convert.own_variables(call.body, live), what="The variable")
        _change_inputs(live, mine, call.body)
        change_map(live, mine, "labels", call.body.labels, what="The label")
        change_limits(live, mine, call.body.limits)
        change_part(live, mine, "lists", call.body.lists, what="The lists")
        change_part(live, mine, "check", call.body.check, what="The check")

    name = obj["metadata"]["name"]
    changed = await call.platform.writer.change(
        cluster.systems, call.namespace, name, change, if_match=call.if_match
    )
    return _system(call, cast("SystemObject", filled(cast("Object", changed))))


def _change_inputs(live: SystemObject, mine: Object, body: rest.SystemUpdate) -> None:
    """Sets all inputs. ApiError 409 where others own one that is to go."""
    if body.inputs is None:
        return
    wanted = [one.to_spec() for one in body.inputs]
    stored = live["spec"].get("inputs") or ()
    for name in {one["name"] for one in stored} - {one["name"] for one in wanted}:
        refuse_removal(live, ("inputs", {"name": name}), what=f'The input "{name}"')
    # What others have set to the same stays theirs alone.
    ours = {one["name"] for one in mine["spec"].get("inputs") or ()}
    given = [one for one in wanted if one["name"] in ours or one not in stored]
    set_or_drop(mine["spec"], "inputs", given)


@OPERATIONS.add(
    "DELETE",
    SYSTEM,
    id="deleteSystem",
    summary="Delete a system that nothing uses",
    permissions=permission("delete", "systems"),
    success=204,
)
async def delete_system(call: Call[None, None]) -> Reply[None]:
    """Deletes a system. The answer is 409 and lists them in usedBy while templates or connections use it."""
    cluster = call.platform.cluster
    obj = cluster.require(cluster.systems, call.namespace, call.path["system_id"])
    name = obj["metadata"]["name"]
    users = [
        (f'{word} "{user["spec"]["name"]}"', _distinction(call, user))
        for word, found in (
            ("template", await cluster.referring_now(cluster.templates, "systemRef", call.namespace, name)),
            (
                "connection",
                await cluster.referring_now(cluster.connections, "systemRef", call.namespace, name),
            ),
        )
        for user in found
    ]
    if users:
        shown = [f"{user} ({distinction})" for user, distinction in users[:50]]
        more = f" and {len(users) - 5} more" if len(users) > 5 else ""
        raise errors.conflict(
            f"The system is used by {', '.join(shown[:5])}{more}: delete those first",
            details=f"Used by {', '.join(shown)}",
            usedBy=[user for user, _ in users[:50]],
        )
    await call.platform.writer.delete(cluster.systems, obj)
    return Reply()


def _distinction(call: AnyCall, user: ConnectionTemplateObject | ConnectionObject) -> str:
    """What tells a template or connection from others of its name: its environment, and its id."""
    identifier = f"id {object_id(user)}"
    if user["kind"] == "Connection":
        return identifier
    spec = user["spec"]
    cluster = call.platform.cluster
    project = cluster.projects.get(call.namespace, spec["projectRef"]["name"])
    shown = project["spec"]["name"] if project else spec["projectRef"]["name"]
    return f'environment "{spec["environment"]}" of project "{shown}", {identifier}'


@OPERATIONS.add(
    "PUT",
    SCHEME,
    id="putAuthSchemeConfig",
    summary="Add or update an auth scheme for a system",
    permissions=permission("patch", "systems"),
    success=201,
    conditional=True,
)
async def put_auth_scheme(call: Call[None, AuthSchemeConfig]) -> Reply[AuthSchemeConfig]:
    """Adds an auth scheme to a system, or updates the one with this id. A client secret that you leave out stays."""
    cluster, identifier = call.platform.cluster, call.path["id"]
    config = call.body if call.body.has_own_id else call.body.with_id(identifier)
    if config.id != identifier:
        raise errors.invalid(
            f"{SUB_OBJECTS[config.type]}.id",
            f'must be "{identifier[:64]}", as in the path, or change the path',
        )
    obj = cluster.require(cluster.systems, call.namespace, call.path["system_id"])
    name = obj["metadata"]["name"]
    credentials, edition = call.platform.credentials, new_edition()
    secrets: list[PlannedSecret] = []
    before: set[str] = set()
    sent: list[str] = []

    def change(live: SystemObject, mine: Object) -> None:
        before.update(secret_references(live))
        items = mine["spec"].setdefault("authSchemeConfigs", [])
        stored = next((item for item in items if item["id"] == identifier), None)
        if stored is None and len(convert.auth_scheme_items(live)) >= 20:
            raise errors.invalid("", "A system has at most 20 auth schemes: delete one first")
        item = schemes.to_item(config, stored, owners=(object_id(obj),))
        secrets[:] = _plan_secret(name, config, item, edition)
        if stored is None:
            items.append(item)
        else:
            items[items.index(stored)] = item
        sent[:] = secrets_sent(live["spec"], merged(live["spec"], mine["spec"]))

    async def stage() -> None:
        names = [secret.name for secret in secrets]
        await call.platform.references.check(call.caller, obj, sent, staged=names)
        await credentials.stage(call.namespace, made_for(_KIND, name), secrets, owner=obj)

    async with credentials.discarding(call.namespace, secrets):
        changed = await call.platform.writer.change(
            cluster.systems, call.namespace, name, change, if_match=call.if_match, prepare=stage
        )
    await credentials.remove(changed, before - secret_references(changed))
    item = convert.auth_scheme_item(changed, identifier)
    if item is None:
        raise errors.conflict("The auth scheme was deleted meanwhile: repeat your request")
    messages = convert.messages_about(system_with_findings(cluster, changed), identifier)
    owner = convert.scheme_owner(changed, organisation=call.organisation.id)
    return Reply(body=schemes.to_rest(item, messages, owner=owner))


@OPERATIONS.add(
    "DELETE",
    SCHEME,
    id="deleteAuthSchemeConfig",
    summary="Delete an auth scheme for a system",
    permissions=permission("patch", "systems"),
    success=204,
)
async def delete_auth_scheme(call: Call[None, None]) -> Reply[None]:
    """Deletes an auth scheme. The answer is 409 for a scheme that another manager, such as a GitOps tool, owns."""
    cluster, identifier = call.platform.cluster, call.path["id"]
    obj = cluster.require(cluster.systems, call.namespace, call.path["system_id"])
    name = obj["metadata"]["name"]
    removed: list[str] = []

    def change(live: SystemObject, mine: Object) -> None:
        item = convert.auth_scheme_item(live, identifier)
        if item is None and is_from_connector(live, identifier):
            raise errors.conflict(
                f'The auth scheme "{identifier}" comes from the system\'s connector: add one of the same id to '
                "replace it, or refer to another version"
            )
        if item is None:
            raise errors.not_found("auth scheme", identifier)
        step = {"id": identifier}
        refuse_removal(live, ("authSchemeConfigs", step), what=f'The auth scheme "{identifier}"')
        items = mine["spec"].get("authSchemeConfigs") or []
        kept = [one for one in items if one["id"] != identifier]
        set_or_drop(mine["spec"], "authSchemeConfigs", kept)
        secret = schemes.secret_name_of(item)
        removed[:] = [secret] if secret else []

    changed = await call.platform.writer.change(cluster.systems, call.namespace, name, change)
    await call.platform.credentials.remove(changed, removed)
    return Reply()


def _plan_secret(owner: str, config: AuthSchemeConfig, item: Object, edition: str) -> list[PlannedSecret]:
    """The Secret for a scheme's secret, to which ``item`` refers from now on; none when it brings none."""
    secret = schemes.secret_of(config)
    if secret is None:
        return []
    key, value = secret
    part = f"scheme/{config.id}"
    name = secret_name(_KIND, owner, part, edition)
    schemes.refer_to_secret(item, name)
    return [PlannedSecret(part=part, values={key: value.encode()}, name=name)]


def _refuse_duplicates(configs: list[AuthSchemeConfig]) -> None:
    seen: set[str] = set()
    for index, config in enumerate(configs):
        if config.id in seen:
            raise errors.invalid(
                f"authSchemeConfigs[{index}].{SUB_OBJECTS[config.type]}.id",
                "is used twice: ids are unique in the list",
            )
        seen.add(config.id)


def _system(call: AnyCall, obj: SystemObject) -> Reply[rest.System]:
    body = system_shown(call.platform.cluster, obj, organisation=call.organisation.id)
    return Reply(body=body, etag=etag(obj))
