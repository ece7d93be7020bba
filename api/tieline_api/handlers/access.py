"""Operations on who may do what, and who changed what."""

import asyncio
from collections.abc import Iterator
from typing import Any

from tieline_api import cursors, errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.field_managers import MANAGER
from tieline_api.cluster.sorted_lists import position
from tieline_api.conversion.times import updated_at
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import access as rest
from tieline_api.schemas.base import PageQuery
from tieline_api.use_cases.role_grants import check_grant, manifest
from tieline_api.views import access as convert
from tieline_core.identity.ids import object_id, parse_id
from tieline_core.kubernetes import AlreadyExists, Informer, NotFound
from tieline_core.kubernetes.resources import EVENTS, ROLE_BINDINGS
from tieline_core.objects import Object
from tieline_core.resources.kinds import GROUP

BINDINGS = f"{ORGANISATION}/role-bindings"
_REPORTED = "reportingController=tieline-operator"
_AT_ONCE = 8

OPERATIONS = Operations("Access and changes")


@OPERATIONS.add(
    "GET",
    BINDINGS,
    id="listRoleBindings",
    summary="List who has which role",
    permissions=permission("list", "rolebindings"),
)
async def list_role_bindings(call: Call[PageQuery, None]) -> Reply[rest.RoleBindingPage]:
    """Returns a page of the role bindings in the organisation's namespace, oldest first. Bindings for all namespaces
    (ClusterRoleBindings) are not among them."""
    found = await call.platform.kube.list(ROLE_BINDINGS, call.namespace)
    page = cursors.cut(found, kind="role-bindings", position=position, **call.query.window)
    items = [convert.role_binding(one) for one in page.items]
    return Reply(
        body=rest.RoleBindingPage(total_count=page.total, items=items, next=page.next, prev=page.prev)
    )


@OPERATIONS.add(
    "POST",
    BINDINGS,
    id="createRoleBinding",
    summary="Assign a role",
    permissions=permission("create", "rolebindings"),
    link_sources={"binding_id": "/id"},
    errors=(409,),
    success=201,
)
async def create_role_binding(call: Call[None, rest.RoleBindingCreate]) -> Reply[rest.RoleBinding]:
    """Assigns one of Tieline's roles to a user, a group or a ServiceAccount, by a RoleBinding in the organisation's
    namespace. It takes effect within seconds. The answer is 403 if the role has permissions that you do not have, and
    409 if REST assigned it already."""
    platform, body = call.platform, call.body
    await check_grant(platform.access, call.caller, body.role, call.namespace)
    wanted = manifest(body, call.namespace)
    try:
        made = await platform.kube.create(ROLE_BINDINGS, wanted, field_manager=MANAGER)
    except AlreadyExists:
        raise errors.conflict(
            f'"{body.subject.name[:100]}" has the role {body.role} already (RoleBinding {wanted["metadata"]["name"]})'
        ) from None
    return Reply(body=convert.role_binding(made))


@OPERATIONS.add(
    "DELETE",
    f"{BINDINGS}/{{binding_id}}",
    id="deleteRoleBinding",
    summary="Remove a role that REST assigned",
    permissions=permission("delete", "rolebindings"),
    errors=(409,),
    success=204,
)
async def delete_role_binding(call: Call[None, None]) -> Reply[None]:
    """Removes a role from its subject. It takes effect within seconds. The answer is 409 for a role binding that REST
    did not create."""
    identifier, kube = parse_id(call.path["binding_id"]), call.platform.kube
    found = await kube.list(ROLE_BINDINGS, call.namespace)
    binding = next((one for one in found if object_id(one) == identifier), None)
    if binding is None:
        raise errors.not_found("role binding", call.path["binding_id"])
    metadata = binding["metadata"]
    if not convert.is_by_rest(binding):
        raise errors.conflict(
            f"The RoleBinding {metadata['name']} was not created by REST: delete it where it is managed, "
            f"or with kubectl delete rolebinding {metadata['name']} -n {call.namespace}"
        )
    await kube.delete(ROLE_BINDINGS, metadata["name"], call.namespace, uid=metadata["uid"])
    return Reply()


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/changes",
    id="listChanges",
    summary="List the newest changes",
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
)
async def list_changes(call: Call[rest.ChangesQuery, None]) -> Reply[rest.ChangeList]:
    """Returns the newest changes of the organisation's objects, or of one: which manager set which fields, and what the
    platform found since. Deletions are not among them."""
    cluster, query = call.platform.cluster, call.query
    known = [(cache, obj) for cache in _changed_by_people(cluster) for obj in _chosen(call, cache, query.id)]
    if query.id is not None and not known:
        raise errors.not_found("object", query.id)
    newest = sorted(known, key=lambda one: updated_at(one[1]), reverse=True)[: query.first]
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def read(cache: Informer[Any], obj: Object) -> list[rest.Change]:
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


def _changed_by_people(cluster: ClusterCache) -> tuple[Informer[Any], ...]:
    return (
        cluster.systems,
        cluster.connectors,
        cluster.projects,
        cluster.templates,
        cluster.connections,
        cluster.activations,
    )


def _chosen(
    call: Call[rest.ChangesQuery, None], cache: Informer[Any], identifier: str | None
) -> Iterator[Object]:
    if identifier is None:
        yield from cache.list(call.namespace)
        return
    wanted = parse_id(identifier)
    found = call.platform.cluster.find(cache, call.namespace, identifier)
    if found is not None and object_id(found) == wanted:
        yield found
