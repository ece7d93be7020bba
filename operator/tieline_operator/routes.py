"""Whom a change concerns: from what was seen in a cache to the objects that must be looked at again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tieline_core.ids import object_id
from tieline_core.kube import Change, Resource
from tieline_core.kube import resources as r
from tieline_core.names import PROJECT_LABEL
from tieline_core.organisations import labelled_id
from tieline_operator.borrowing import concerned_by_connection, concerned_by_grant
from tieline_operator.conditions import find
from tieline_operator.indexes import (
    BY_ADDRESS,
    BY_ID,
    BY_ID_ANYWHERE,
    CHILDREN,
    OWN,
    joined,
    namespace_of,
    public_urls,
    ref,
)
from tieline_operator.plans import Key, Object
from tieline_operator.public_urls import address_key
from tieline_operator.world import View

Views = Mapping[Resource, View]
Route = Callable[[Views, Object], Iterator[Key]]


def affected(views: Views, resource: Resource, change: Change) -> set[Key]:
    """The objects whose plan may come out otherwise after ``change``.

    Both states count: what an object no longer refers to (or no longer claims) may matter as well.
    """
    route = _ROUTES.get(resource)
    if route is None:
        return set()
    states = [state for state in (change.old, change.new) if state is not None]
    if resource in OWN and len(states) == len((change.old, change.new)):
        first, second = (gist(resource, state) for state in states)
        if first == second:
            return set()
    keys = {key for state in states for key in route(views, state)}
    if resource in OWN and change.new is not None:
        keys.discard(key_of(resource, change.new))
    return keys


def gist(resource: Resource, obj: Object) -> tuple[Any, ...]:
    """What others look at in one of our own objects; changes of anything else concern nobody."""
    # What a Project says of itself nobody repeats or waits for, and it changes most often.
    condition = (find(obj) if resource != r.PROJECTS else None) or {}
    status = obj.get("status", {})
    environments = [
        (item.get("name"), item.get("version"), item.get("desiredVersion"), item.get("publicUrl"))
        for item in status.get("environments", [])
    ]
    return (
        obj.get("spec"),
        object_id(obj),
        obj["metadata"].get("deletionTimestamp"),
        condition.get("status"),
        condition.get("message"),
        status.get("state"),
        status.get("latestVersion"),
        status.get("defaultVersion"),
        status.get("interface"),
        status.get("fromConnector"),
        environments,
    )


def key_of(resource: Resource, obj: Object) -> Key:
    """The key of one of our own objects."""
    return Key(resource.kind, namespace_of(obj), obj["metadata"]["name"])


def _found(views: Views, resource: Resource, index: str, *parts: str | None) -> Iterator[Key]:
    for obj in views[resource].by_index(index, joined(*parts)):
        yield key_of(resource, obj)


def _same_id(views: Views, resource: Resource, obj: Object) -> Iterator[Key]:
    return _found(views, resource, BY_ID, namespace_of(obj), object_id(obj))


def _system(views: Views, obj: Object) -> Iterator[Key]:
    place = namespace_of(obj), obj["metadata"]["name"]
    yield from _found(views, r.CONNECTIONS, "system", *place)
    yield from _found(views, r.CONNECTION_TEMPLATES, "system", *place)
    yield from _same_id(views, r.SYSTEMS, obj)


def _connection(views: Views, obj: Object) -> Iterator[Key]:
    namespace, name = namespace_of(obj), obj["metadata"]["name"]
    yield from _found(views, r.CONNECTION_TEMPLATES, "connection", namespace, name)
    yield from _found(views, r.ACTIVATIONS, "connection", namespace, name)
    claim = (ref(obj, "systemRef"), ref(obj, "endUserRef"), obj["spec"].get("name"))
    yield from _found(views, r.CONNECTIONS, "name", namespace, *claim)
    yield from _same_id(views, r.CONNECTIONS, obj)
    yield from concerned_by_connection(views, obj)


def _grant(views: Views, obj: Object) -> Iterator[Key]:
    yield from concerned_by_grant(views, obj)
    yield from _same_id(views, r.CREDENTIAL_GRANTS, obj)


def _template(views: Views, obj: Object) -> Iterator[Key]:
    namespace, project = namespace_of(obj), ref(obj, "projectRef")
    environment = obj["spec"].get("environment")
    if project:
        yield Key(r.PROJECTS.kind, namespace, project)
    yield from _found(views, r.ACTIVATIONS, "environment", namespace, project, environment)
    yield from _found(views, r.ACTIVATIONS, "template", namespace, obj["metadata"]["name"])
    claim = (project, environment, obj["spec"].get("name"))
    yield from _found(views, r.CONNECTION_TEMPLATES, "name", namespace, *claim)
    yield from _same_id(views, r.CONNECTION_TEMPLATES, obj)


def _project(views: Views, obj: Object) -> Iterator[Key]:
    place = namespace_of(obj), obj["metadata"]["name"]
    yield from _found(views, r.CONNECTION_TEMPLATES, "project", *place)
    yield from _found(views, r.ACTIVATIONS, "project", *place)
    yield from _found(views, r.PROJECT_VERSIONS, "project", *place)
    yield from _found(views, r.CONNECTORS, "project", *place)
    for other in views[r.PROJECTS].by_index(BY_ID_ANYWHERE, object_id(obj)):
        yield key_of(r.PROJECTS, other)
    for url in public_urls(obj):
        for other in views[r.PROJECTS].by_index(BY_ADDRESS, address_key(url)):
            yield key_of(r.PROJECTS, other)


def _version(views: Views, obj: Object) -> Iterator[Key]:
    project = ref(obj, "projectRef")
    if project:
        yield Key(r.PROJECTS.kind, namespace_of(obj), project)
        yield from _found(views, r.CONNECTORS, "project", namespace_of(obj), project)
    yield from _same_id(views, r.PROJECT_VERSIONS, obj)


def _activation(views: Views, obj: Object) -> Iterator[Key]:
    claim = (ref(obj, "projectRef"), obj["spec"].get("environment"), ref(obj, "endUserRef"))
    yield from _found(views, r.ACTIVATIONS, "target", namespace_of(obj), *claim)
    yield from _same_id(views, r.ACTIVATIONS, obj)


def _end_user(views: Views, obj: Object) -> Iterator[Key]:
    namespace, name = namespace_of(obj), obj["metadata"]["name"]
    yield from _found(views, r.ACTIVATIONS, "user", namespace, name)
    yield from _found(views, r.CONNECTIONS, "user", namespace, name)
    yield from _found(views, r.END_USERS, "external", namespace, obj["spec"].get("externalId"))
    yield from _same_id(views, r.END_USERS, obj)


def _connector(views: Views, obj: Object) -> Iterator[Key]:
    place = namespace_of(obj), obj["metadata"]["name"]
    yield from _found(views, r.CONNECTOR_VERSIONS, "connector", *place)
    yield from _found(views, r.SYSTEMS, "connector", *place)
    project = ref(obj, "projectRef")
    if project:
        yield Key(r.PROJECTS.kind, namespace_of(obj), project)
    yield from _same_id(views, r.CONNECTORS, obj)


def _connector_version(views: Views, obj: Object) -> Iterator[Key]:
    connector = ref(obj, "connectorRef")
    if connector:
        yield Key(r.CONNECTORS.kind, namespace_of(obj), connector)
        yield from _found(views, r.SYSTEMS, "connector", namespace_of(obj), connector)
    yield from _same_id(views, r.CONNECTOR_VERSIONS, obj)


def _child(views: Views, obj: Object) -> Iterator[Key]:
    label = obj["metadata"].get("labels", {}).get(PROJECT_LABEL)
    return _found(views, r.PROJECTS, "label", namespace_of(obj), label)


def _config_map(views: Views, obj: Object) -> Iterator[Key]:
    place = namespace_of(obj), obj["metadata"]["name"]
    yield from _found(views, r.PROJECTS, "config-map", *place)
    yield from _found(views, r.PROJECT_VERSIONS, "config-map", *place)
    yield from _found(views, r.CONNECTORS, "config-map", *place)
    yield from _found(views, r.CONNECTOR_VERSIONS, "config-map", *place)
    yield from _child(views, obj)


def _secret(views: Views, obj: Object) -> Iterator[Key]:
    namespace = namespace_of(obj)
    place = namespace, obj["metadata"]["name"]
    for system in views[r.SYSTEMS].by_index("secret", joined(*place)):
        yield key_of(r.SYSTEMS, system)
        yield from _found(views, r.CONNECTIONS, "system", namespace, system["metadata"]["name"])
    for connection in views[r.CONNECTIONS].by_index("secret", joined(*place)):
        yield key_of(r.CONNECTIONS, connection)
        yield from concerned_by_connection(views, connection)
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == r.CONNECTIONS.kind:
            yield Key(r.CONNECTIONS.kind, namespace, owner["name"])


def _namespace(views: Views, obj: Object) -> Iterator[Key]:
    names = {obj["metadata"]["name"]}
    identifier = labelled_id(obj)
    if identifier:
        # Of several with one id the oldest has it: where one comes or goes, another one may be that.
        names |= {one["metadata"]["name"] for one in views[r.NAMESPACES].by_index("organisation", identifier)}
    for name in sorted(names):
        for resource in (r.PROJECTS, r.CREDENTIAL_GRANTS):
            for found in views[resource].list(name):
                yield key_of(resource, found)


def _routes() -> Iterable[tuple[Resource, Route]]:
    yield from ((resource, _child) for resource in (*CHILDREN, r.PODS))
    yield r.SYSTEMS, _system
    yield r.CONNECTIONS, _connection
    yield r.CONNECTION_TEMPLATES, _template
    yield r.PROJECTS, _project
    yield r.PROJECT_VERSIONS, _version
    yield r.ACTIVATIONS, _activation
    yield r.END_USERS, _end_user
    yield r.CONNECTORS, _connector
    yield r.CONNECTOR_VERSIONS, _connector_version
    yield r.CREDENTIAL_GRANTS, _grant
    yield r.CONFIG_MAPS, _config_map
    yield r.SECRETS, _secret
    yield r.NAMESPACES, _namespace


_ROUTES: Mapping[Resource, Route] = dict(_routes())
