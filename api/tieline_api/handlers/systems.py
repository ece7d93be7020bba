"""Operations on systems and their auth schemes."""

from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.auth.secret_access import merged, secrets_sent
from tieline_api.cache import sorted_lists
from tieline_api.conversion import auth_schemes as schemes
from tieline_api.conversion import systems as convert
from tieline_api.conversion.connections import PlannedSecret
from tieline_api.conversion.lists import readable
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.schemas import systems as rest
from tieline_api.schemas.auth_schemes import SUB_OBJECTS, AuthSchemeConfig
from tieline_api.schemas.base import SearchQuery
from tieline_api.store.credential_secrets import made_for, new_edition, secret_name, secret_references
from tieline_api.store.etags import etag
from tieline_api.store.writer import change_limits, refuse_removal, set_or_drop
from tieline_api.use_cases.status_overlay import system_with_findings
from tieline_core.identity.ids import new_id, object_id, object_name
from tieline_core.objects import Object
from tieline_core.systems import filled, is_from_connector

SYSTEM = f"{ORGANISATION}/systems/{{system_id}}"
SCHEME = f"{SYSTEM}/auth-scheme-configs/{{id}}"
_KIND = "System"


async def list_systems(call: Call[SearchQuery, None]) -> Reply:
    """Returns a page of the organisation's systems, oldest first."""
    rows = call.platform.world.ordered.systems.rows(call.namespace, search=call.query.search)
    page = sorted_lists.page(rows, kind="systems", **call.query.window)
    world, organisation = call.platform.world, call.organisation.id
    shown = readable(
        page.items,
        lambda obj: convert.system_to_rest(system_with_findings(world, obj), organisation=organisation),
    )
    body = rest.SystemPage(total_count=page.total, items=shown.items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=shown.warnings)


async def get_system(call: Call[None, None]) -> Reply:
    """Returns a system with its auth schemes and the findings about them."""
    obj = call.platform.world.need(call.platform.world.systems, call.namespace, call.path["system_id"])
    return _system(call, obj)


async def create_system(call: Call[None, rest.SystemCreate]) -> Reply:
    """Creates a system. Client secrets of its auth schemes are stored in Kubernetes Secrets and never returned."""
    _refuse_duplicates(call.body.auth_scheme_configs)
    identifier = new_id()
    spec = convert.new_system_spec(call.body)
    secrets, owner, edition = [], object_name(identifier), new_edition()
    for config, item in zip(call.body.auth_scheme_configs, spec["authSchemeConfigs"], strict=True):
        secrets += _plan_secret(owner, config, item, edition)
    platform = call.platform
    async with platform.credentials.discarding(call.namespace, secrets):
        await platform.credentials.stage(call.namespace, made_for(_KIND, owner), secrets)
        obj = await platform.writer.create(platform.world.systems, call.namespace, identifier, spec)
    await platform.credentials.adopt(obj, secrets)
    return _system(call, obj)


async def update_system(call: Call[None, rest.SystemUpdate]) -> Reply:
    """Updates name, domain, base URL and limits. Fields that you leave out keep their values."""
    world = call.platform.world
    obj = world.need(world.systems, call.namespace, call.path["system_id"])
    changes = convert.system_changes(call.body)

    def change(live: Object, mine: Object) -> None:
        mine["spec"].update(changes)
        change_limits(live, mine, call.body.limits)

    name = obj["metadata"]["name"]
    changed = await call.platform.writer.change(
        world.systems, call.namespace, name, change, if_match=call.if_match
    )
    return _system(call, filled(changed))


async def delete_system(call: Call[None, None]) -> Reply:
    """Deletes a system. The answer is 409 and lists them in usedBy while templates or connections use it."""
    world = call.platform.world
    obj = world.need(world.systems, call.namespace, call.path["system_id"])
    name = obj["metadata"]["name"]
    users = [
        (f'{word} "{user["spec"]["name"]}"', _distinction(call, user))
        for word, cache in (("template", world.templates), ("connection", world.connections))
        for user in await world.referring_now(cache, "systemRef", call.namespace, name)
    ]
    if users:
        shown = [f"{user} ({distinction})" for user, distinction in users[:50]]
        more = f" and {len(users) - 5} more" if len(users) > 5 else ""
        raise errors.conflict(
            f"The system is used by {', '.join(shown[:5])}{more}: delete those first",
            details=f"Used by {', '.join(shown)}",
            usedBy=[user for user, _ in users[:50]],
        )
    await call.platform.writer.delete(world.systems, obj)
    return Reply()


def _distinction(call: Call[Any, Any], user: Object) -> str:
    """What tells a template or connection from others of its name: its environment, and its id."""
    identifier, spec = f"id {object_id(user)}", user["spec"]
    if "environment" not in spec:
        return identifier
    world = call.platform.world
    project = world.projects.get(call.namespace, spec["projectRef"]["name"])
    shown = project["spec"]["name"] if project else spec["projectRef"]["name"]
    return f'environment "{spec["environment"]}" of project "{shown}", {identifier}'


async def put_auth_scheme(call: Call[None, AuthSchemeConfig]) -> Reply:
    """Adds an auth scheme to a system, or updates the one with this id. A client secret that you leave out stays."""
    world, identifier = call.platform.world, call.path["id"]
    config = call.body if call.body.has_own_id else call.body.with_id(identifier)
    if config.id != identifier:
        raise errors.invalid(
            f"{SUB_OBJECTS[config.type]}.id",
            f'must be "{identifier[:64]}", as in the path, or change the path',
        )
    obj = world.need(world.systems, call.namespace, call.path["system_id"])
    name = obj["metadata"]["name"]
    credentials, edition = call.platform.credentials, new_edition()
    secrets: list[PlannedSecret] = []
    before: set[str] = set()
    sent: list[str] = []

    def change(live: Object, mine: Object) -> None:
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
            world.systems, call.namespace, name, change, if_match=call.if_match, prepare=stage
        )
    await credentials.remove(changed, before - secret_references(changed))
    item = convert.auth_scheme_item(changed, identifier)
    if item is None:
        raise errors.conflict("The auth scheme was deleted meanwhile: repeat your request")
    messages = convert.messages_about(system_with_findings(world, changed), identifier)
    owner = convert.scheme_owner(changed, organisation=call.organisation.id)
    return Reply(body=schemes.to_rest(item, messages, owner=owner))


async def delete_auth_scheme(call: Call[None, None]) -> Reply:
    """Deletes an auth scheme. The answer is 409 for a scheme that another manager, such as a GitOps tool, owns."""
    world, identifier = call.platform.world, call.path["id"]
    obj = world.need(world.systems, call.namespace, call.path["system_id"])
    name = obj["metadata"]["name"]
    removed: list[str] = []

    def change(live: Object, mine: Object) -> None:
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

    changed = await call.platform.writer.change(world.systems, call.namespace, name, change)
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


def _system(call: Call[Any, Any], obj: Object) -> Reply:
    judged = system_with_findings(call.platform.world, obj)
    return Reply(body=convert.system_to_rest(judged, organisation=call.organisation.id), etag=etag(obj))


OPERATIONS = (
    Operation(
        id="listSystems",
        path=f"{ORGANISATION}/systems",
        summary="List systems",
        handler=list_systems,
        permissions=permission("list", "systems"),
        key_as_bearer=True,
        response=rest.SystemPage,
    ),
    Operation(
        id="createSystem",
        method="POST",
        path=f"{ORGANISATION}/systems",
        summary="Create a new system",
        handler=create_system,
        permissions=permission("create", "systems"),
        link_sources={"system_id": "/id"},
        success=201,
        response=rest.System,
    ),
    Operation(
        id="getSystem",
        path=SYSTEM,
        summary="Get a system",
        handler=get_system,
        permissions=permission("get", "systems"),
        response=rest.System,
        conditional=True,
    ),
    Operation(
        id="updateSystem",
        method="PUT",
        path=SYSTEM,
        summary="Update a system",
        handler=update_system,
        permissions=permission("patch", "systems"),
        success=201,
        response=rest.System,
        conditional=True,
    ),
    Operation(
        id="deleteSystem",
        method="DELETE",
        path=SYSTEM,
        summary="Delete a system that nothing uses",
        handler=delete_system,
        permissions=permission("delete", "systems"),
        success=204,
    ),
    Operation(
        id="putAuthSchemeConfig",
        method="PUT",
        path=SCHEME,
        summary="Add or update an auth scheme for a system",
        handler=put_auth_scheme,
        permissions=permission("patch", "systems"),
        success=201,
        response=AuthSchemeConfig,
        conditional=True,
    ),
    Operation(
        id="deleteAuthSchemeConfig",
        method="DELETE",
        path=SCHEME,
        summary="Delete an auth scheme for a system",
        handler=delete_auth_scheme,
        permissions=permission("patch", "systems"),
        success=204,
    ),
)
