"""Operations on who may do what, and who changed what."""

import asyncio
from collections.abc import Iterator

from tieline_api import cursors, errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.cache.cluster_cache import ClusterCache
from tieline_api.cache.sorted_lists import position
from tieline_api.conversion.times import updated_at
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.schemas import access as rest
from tieline_api.schemas.base import PageQuery
from tieline_api.use_cases import access_views as convert
from tieline_core.identity.ids import object_id, parse_id
from tieline_core.kubernetes import Informer, NotFound
from tieline_core.kubernetes.resources import EVENTS, ROLE_BINDINGS
from tieline_core.objects import Object
from tieline_core.resources.kinds import GROUP

_REPORTED = "reportingController=tieline-operator"
_AT_ONCE = 8


async def list_role_bindings(call: Call[PageQuery, None]) -> Reply:
    """Returns a page of the role bindings in the organisation's namespace, oldest first. Bindings for all namespaces
    (ClusterRoleBindings) are not among them."""
    found = await call.platform.kube.list(ROLE_BINDINGS, call.namespace)
    page = cursors.cut(found, kind="role-bindings", position=position, **call.query.window)
    items = [convert.role_binding(one) for one in page.items]
    return Reply(
        body=rest.RoleBindingPage(total_count=page.total, items=items, next=page.next, prev=page.prev)
    )


async def list_changes(call: Call[rest.ChangesQuery, None]) -> Reply:
    """Returns the newest changes of the organisation's objects, or of one: which manager set which fields, and what the
    platform found since. Deletions are not among them."""
    world, query = call.platform.world, call.query
    known = [(cache, obj) for cache in _changed_by_people(world) for obj in _chosen(call, cache, query.id)]
    if query.id is not None and not known:
        raise errors.not_found("object", query.id)
    newest = sorted(known, key=lambda one: updated_at(one[1]), reverse=True)[: query.first]
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def read(cache: Informer, obj: Object) -> list[rest.Change]:
        async with at_once:
            try:
                live = await call.platform.kube.get(cache.resource, obj["metadata"]["name"], call.namespace)
            except NotFound:
                return []
        return [*convert.changes(live)]

    done = await asyncio.gather(*(read(cache, obj) for cache, obj in newest))
    found = [change for changes in done for change in changes]
    found += await _events(call, {obj["metadata"]["uid"]: obj for _, obj in known})
    return Reply(body=rest.ChangeList(items=convert.newest(found, query.first)))


async def _events(call: Call[rest.ChangesQuery, None], objects: dict[str, Object]) -> list[rest.Change]:
    found = await call.platform.kube.list(EVENTS, call.namespace, field_selector=_REPORTED)
    return [
        convert.event(one, about)
        for one in found
        if str((one.get("regarding") or {}).get("apiVersion", "")).startswith(f"{GROUP}/")
        and ((about := objects.get(one["regarding"].get("uid", ""))) or call.query.id is None)
    ]


def _changed_by_people(world: ClusterCache) -> tuple[Informer, ...]:
    return (
        world.systems,
        world.connectors,
        world.projects,
        world.templates,
        world.connections,
        world.activations,
    )


def _chosen(call: Call[rest.ChangesQuery, None], cache: Informer, identifier: str | None) -> Iterator[Object]:
    if identifier is None:
        yield from cache.list(call.namespace)
        return
    wanted = parse_id(identifier)
    found = call.platform.world.find(cache, call.namespace, identifier)
    if found is not None and object_id(found) == wanted:
        yield found


OPERATIONS = (
    Operation(
        id="listRoleBindings",
        path=f"{ORGANISATION}/role-bindings",
        summary="List who has which role",
        handler=list_role_bindings,
        permissions=permission("list", "apikeys"),
        response=rest.RoleBindingPage,
    ),
    Operation(
        id="listChanges",
        path=f"{ORGANISATION}/changes",
        summary="List the newest changes",
        handler=list_changes,
        permissions=tuple(
            Permission("list", kind)
            for kind in (
                "systems",
                "connectors",
                "projects",
                "connectiontemplates",
                "connections",
                "activations",
            )
        ),
        response=rest.ChangeList,
    ),
)
