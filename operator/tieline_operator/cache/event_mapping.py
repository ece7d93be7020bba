"""Event mapping: which objects to enqueue for a change in a cache."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tieline_core.credentials import refusals
from tieline_core.credentials.linker import LinkedCredential, canonical, credential_ids, granted
from tieline_core.identity.ids import object_id
from tieline_core.identity.names import ACTIVE_ANNOTATION, ENVIRONMENT_ID_LABEL, PROJECT_LABEL
from tieline_core.identity.organisations import labelled_id, records_of
from tieline_core.kubernetes import Change, Resource
from tieline_core.kubernetes import resources as r
from tieline_core.resources import CredentialGrant
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.quotas import quotas_annotation
from tieline_operator.apply.conditions import find_condition
from tieline_operator.apply.plan import Key, Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.cache.indexers import (
    BY_ACCOUNT,
    BY_ADDRESS,
    BY_ID,
    BY_ID_ANYWHERE,
    CHILD_RESOURCES,
    PRIMARY_RESOURCES,
    account_key,
    has_scaling,
    joined,
    key_of,
    namespace_of,
    public_urls,
    ref,
)
from tieline_operator.workload.activators import ready_addresses
from tieline_operator.workload.placement_policy import placement_annotation
from tieline_operator.workload.public_urls import address_key

SHOWN = (
    *("name", "id", "status", "message", "version", "desiredVersion", "rollout", "deployFailure"),
    *("readyReplicas", "sleeping", "publicUrl", "queued", "deadLetters"),
)
"""The fields of an environment in a Project's status that its Environment shows."""
_LINKABLE = frozenset({CredentialType.OAUTH2_CLIENT, CredentialType.CERTIFICATE})

EventMapper = Callable[[Listers, Object], Iterator[Key]]


def keys_to_enqueue(listers: Listers, resource: Resource, change: Change) -> set[Key]:
    """The keys of the objects whose plan may differ after ``change``.

    Both states count: what an object no longer refers to (or no longer claims) may matter as well.
    """
    if resource == r.ORGANISATION_RECORDS:
        return _of_records(listers, change)
    if resource == r.API_ENDPOINTS:
        return _that_may_sleep(listers, change)
    mappers = _EVENT_MAPPERS.get(resource, ())
    states = [state for state in (change.old, change.new) if state is not None]
    notified = _followers_of_project(listers, states) if resource == r.PROJECTS else set()
    if resource == r.SECRETS:
        notified = _sharers_of_account(listers, change)
    if resource in (*PRIMARY_RESOURCES, r.NAMESPACES) and len(states) == len((change.old, change.new)):
        first, second = (relevant_fields(resource, state) for state in states)
        if first == second:
            return notified
    keys = notified | {key for state in states for mapper in mappers for key in mapper(listers, state)}
    if resource in PRIMARY_RESOURCES:
        for state in states:
            keys.update(_found(listers, resource, BY_ID, namespace_of(state), object_id(state)))
        if change.new is not None:
            keys.discard(key_of(resource, change.new))
    return keys


def _that_may_sleep(listers: Listers, change: Change) -> set[Key]:
    """The Projects with environments that may sleep, where the API answers elsewhere now."""
    before, after = (ready_addresses([state] if state else []) for state in (change.old, change.new))
    if before == after:
        return set()
    return {key_of(r.PROJECTS, project) for project in listers[r.PROJECTS].list() if has_scaling(project)}


def _sharers_of_account(listers: Listers, change: Change) -> set[Key]:
    """The Connections with tokens of an account that another Secret now holds tokens of, too, or no more."""
    old, new = (account_key(state) if state else None for state in (change.old, change.new))
    if old == new:
        return set()  # a refresh, most often
    return {
        key
        for account in (old, new)
        if account
        for secret in listers[r.SECRETS].by_index(BY_ACCOUNT, account)
        for key in _owners(secret)
    }


def _followers_of_project(listers: Listers, states: Sequence[Object]) -> set[Key]:
    """The Notifications and Environments of a Project whose environments are in another state now, which nothing else
    depends on."""
    return {
        key
        for resource, fields in ((r.NOTIFICATIONS, _notified_fields), (r.ENVIRONMENTS, _shown_fields))
        if len({fields(state) for state in states}) == len(states)
        for key in _found(
            listers, resource, "project", namespace_of(states[0]), states[0]["metadata"]["name"]
        )
    }


def _notified_fields(project: Object) -> tuple[Any, ...]:
    return tuple(
        tuple(item.get(name) for name in ("name", "status", "deadLetters", "rollout", "deployFailure"))
        for item in project.get("status", {}).get("environments") or ()
    )


def _shown_fields(project: Object) -> tuple[Any, ...]:
    """What Environments show of a Project's environments."""
    return tuple(
        tuple(item.get(name) for name in SHOWN)
        for item in project.get("status", {}).get("environments") or ()
    )


def relevant_fields(resource: Resource, obj: Object) -> tuple[Any, ...]:
    """What others use of a namespace or of one of our own objects; changes of anything else enqueue nothing."""
    if resource == r.NAMESPACES:
        # Which organisation it is depends on the id that it carries, and on its age where nothing is recorded.
        created = obj["metadata"]["creationTimestamp"]
        return labelled_id(obj), created, placement_annotation(obj), quotas_annotation(obj)
    # Nothing depends on the condition of a Project, which changes most often.
    condition = (find_condition(obj) if resource != r.PROJECTS else None) or {}
    status = obj.get("status", {})
    annotations = obj["metadata"].get("annotations") or {}
    environments = [
        (item.get("name"), item.get("version"), item.get("desiredVersion"), item.get("publicUrl"))
        for item in status.get("environments", [])
    ]
    return (
        obj.get("spec"),
        object_id(obj),
        status.get("id"),
        status.get("name"),
        obj["metadata"].get("deletionTimestamp"),
        condition.get("status"),
        condition.get("message"),
        (find_condition(obj, refusals.CONDITION) or {}).get("status"),
        status.get("state"),
        status.get("latestVersion"),
        status.get("defaultVersion"),
        status.get("interface"),
        status.get("fromConnector"),
        environments,
        annotations.get(ACTIVE_ANNOTATION),
    )


def _found(listers: Listers, resource: Resource, index: str, *parts: str | None) -> Iterator[Key]:
    for obj in listers[resource].by_index(index, joined(*parts)):
        yield key_of(resource, obj)


def _referrers(index: str, *resources: Resource) -> EventMapper:
    """Maps an object to those that have its name in an index."""

    def referrers(listers: Listers, obj: Object) -> Iterator[Key]:
        for resource in resources:
            yield from _found(listers, resource, index, namespace_of(obj), obj["metadata"]["name"])

    return referrers


def _referenced(field: str, referenced: Resource) -> EventMapper:
    """Maps an object to the one that a field of its spec names."""

    def key(_listers: Listers, obj: Object) -> Iterator[Key]:
        if name := ref(obj, field):
            yield Key(referenced.kind, namespace_of(obj), name)

    return key


def _connection(listers: Listers, obj: Object) -> Iterator[Key]:
    claim = (ref(obj, "systemRef"), ref(obj, "endUserRef"), obj["spec"].get("name"))
    yield from _found(listers, r.CONNECTIONS, "name", namespace_of(obj), *claim)
    yield from _users_of_credentials(listers, obj)


def _users_of_credentials(listers: Listers, obj: Object) -> Iterator[Key]:
    """Grants that name the connection, and all that use its clients and certificates."""
    metadata, spec = obj["metadata"], obj.get("spec", {})
    namespace = namespace_of(obj)
    for name in (metadata["name"], object_id(obj), object_id(obj).lower()):
        yield from _found(listers, r.CREDENTIAL_GRANTS, "connection", namespace, name)
    kinds = {item.get("type") for item in spec.get("credentials", [])}
    if kinds & _LINKABLE:
        yield from _users_of(listers, credential_ids(obj))
    if CredentialType.CERTIFICATE in kinds and not spec.get("endUserRef"):
        yield from _found(listers, r.CONNECTIONS, "system", namespace, ref(obj, "systemRef"))


def _users_of(listers: Listers, credentials: Iterable[str]) -> Iterator[Key]:
    """Systems and connections whose schemes name one of the credentials, in any namespace."""
    for identifier in credentials:
        yield from _found(listers, r.CONNECTIONS, "client", identifier)
        for system in listers[r.SYSTEMS].by_index("client", identifier):
            yield key_of(r.SYSTEMS, system)
            yield from _found(
                listers, r.CONNECTIONS, "system", namespace_of(system), system["metadata"]["name"]
            )


def _grant(listers: Listers, obj: Object) -> Iterator[Key]:
    """All that use one of the credentials that are granted, or were until now."""
    try:
        grant = CredentialGrant.read(obj)
    except ValidationError:
        return  # an older definition let it in; it grants nothing
    directory = CacheDirectory(listers)
    found = [granted(directory, grant.namespace, given) for given in grant.spec.to]
    yield from _users_of(listers, [canonical(one.id) for one in found if isinstance(one, LinkedCredential)])


def _notified(listers: Listers, obj: Object) -> Iterator[Key]:
    """The Notifications of the environment that a template or an activation is of."""
    project, environment = ref(obj, "projectRef"), obj["spec"].get("environment")
    yield from _found(listers, r.NOTIFICATIONS, "environment", namespace_of(obj), project, environment)


def _notified_of_connection(listers: Listers, obj: Object) -> Iterator[Key]:
    key = joined(namespace_of(obj), obj["metadata"]["name"])
    for resource in (r.CONNECTION_TEMPLATES, r.ACTIVATIONS):
        for user in listers[resource].by_index("connection", key):
            yield from _notified(listers, user)


def _notified_of_origin(listers: Listers, obj: Object) -> Iterator[Key]:
    """The Notifications of the environment whose template a connection was made for."""
    template = listers[r.CONNECTION_TEMPLATES].get(namespace_of(obj), ref(obj, "connectionTemplateRef") or "")
    if template is not None:
        yield from _notified(listers, template)


def _template(listers: Listers, obj: Object) -> Iterator[Key]:
    namespace, project = namespace_of(obj), ref(obj, "projectRef")
    environment = obj["spec"].get("environment")
    yield from _notified(listers, obj)
    yield from _found(listers, r.ACTIVATIONS, "environment", namespace, project, environment)
    claim = (project, environment, obj["spec"].get("name"))
    yield from _found(listers, r.CONNECTION_TEMPLATES, "name", namespace, *claim)


def _project(listers: Listers, obj: Object) -> Iterator[Key]:
    yield from _found(listers, r.PROJECTS, BY_ID_ANYWHERE, object_id(obj))
    for url in public_urls(obj):
        yield from _found(listers, r.PROJECTS, BY_ADDRESS, address_key(url))


def _version(listers: Listers, obj: Object) -> Iterator[Key]:
    if project := ref(obj, "projectRef"):
        yield from _found(listers, r.CONNECTORS, "project", namespace_of(obj), project)


def _activation(listers: Listers, obj: Object) -> Iterator[Key]:
    claim = (ref(obj, "projectRef"), obj["spec"].get("environment"), ref(obj, "endUserRef"))
    yield from _found(listers, r.ACTIVATIONS, "target", namespace_of(obj), *claim)


def _end_user(listers: Listers, obj: Object) -> Iterator[Key]:
    yield from _found(listers, r.END_USERS, "external", namespace_of(obj), obj["spec"].get("externalId"))


def _connector_version(listers: Listers, obj: Object) -> Iterator[Key]:
    if connector := ref(obj, "connectorRef"):
        yield from _found(listers, r.SYSTEMS, "connector", namespace_of(obj), connector)


def _child(listers: Listers, obj: Object) -> Iterator[Key]:
    label = obj["metadata"].get("labels", {}).get(PROJECT_LABEL)
    return _found(listers, r.PROJECTS, "label", namespace_of(obj), label)


def _environment(listers: Listers, obj: Object) -> Iterator[Key]:
    """The Environment of a Deployment."""
    label = obj["metadata"].get("labels", {}).get(ENVIRONMENT_ID_LABEL)
    return _found(listers, r.ENVIRONMENTS, BY_ID, namespace_of(obj), label)


def _secret(listers: Listers, obj: Object) -> Iterator[Key]:
    namespace = namespace_of(obj)
    namespaced_name = namespace, obj["metadata"]["name"]
    for system in listers[r.SYSTEMS].by_index("secret", joined(*namespaced_name)):
        yield key_of(r.SYSTEMS, system)
        yield from _found(listers, r.CONNECTIONS, "system", namespace, system["metadata"]["name"])
    for connection in listers[r.CONNECTIONS].by_index("secret", joined(*namespaced_name)):
        yield key_of(r.CONNECTIONS, connection)
        yield from _users_of_credentials(listers, connection)
    for channel in listers[r.NOTIFICATION_CHANNELS].by_index("secret", joined(*namespaced_name)):
        yield key_of(r.NOTIFICATION_CHANNELS, channel)
    yield from _found(listers, r.PROJECTS, "secret", *namespaced_name)
    yield from _owners(obj)


def _owners(obj: Object) -> Iterator[Key]:
    """The Connections that own a Secret."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == r.CONNECTIONS.kind:
            yield Key(r.CONNECTIONS.kind, namespace_of(obj), owner["name"])


def _namespace(listers: Listers, obj: Object) -> Iterator[Key]:
    identifier = labelled_id(obj)
    # Of several with one id, one has it: a change of one may give it to another.
    claimants = _claimants(listers, identifier) if identifier else set()
    yield from _in_namespaces(listers, claimants | {obj["metadata"]["name"]})


def _claimants(listers: Listers, identifier: str) -> set[str]:
    return {one["metadata"]["name"] for one in listers[r.NAMESPACES].by_index("organisation", identifier)}


def _of_records(listers: Listers, change: Change) -> set[Key]:
    """The objects in namespaces that are, or may be, another organisation by a change of the records."""
    before, after = (records_of([state] if state else []) for state in (change.old, change.new))
    names: set[str] = set()
    for identifier in before.keys() | after.keys():
        held, holds = before.get(identifier), after.get(identifier)
        claimants = _claimants(listers, identifier)
        if held != holds and not (held is None and claimants == {holds}):
            names |= {name for name in (held, holds) if name} | claimants
    return set(_in_namespaces(listers, names))


def _in_namespaces(listers: Listers, names: Iterable[str]) -> Iterator[Key]:
    for name in sorted(names):
        for resource in PRIMARY_RESOURCES:
            for found in listers[resource].list(name):
                yield key_of(resource, found)


_EVENT_MAPPERS: Mapping[Resource, Sequence[EventMapper]] = {
    **dict.fromkeys((*CHILD_RESOURCES, r.JOBS, r.PODS), (_child,)),
    r.DEPLOYMENTS: (_child, _environment),
    r.ENVIRONMENTS: (_referenced("projectRef", r.PROJECTS),),
    r.SYSTEMS: (_referrers("system", r.CONNECTIONS, r.CONNECTION_TEMPLATES),),
    r.CONNECTIONS: (
        _referrers("connection", r.CONNECTION_TEMPLATES, r.ACTIVATIONS),
        _connection,
        _notified_of_connection,
        _notified_of_origin,
    ),
    r.CONNECTION_TEMPLATES: (
        _referenced("projectRef", r.PROJECTS),
        _referrers("template", r.ACTIVATIONS),
        _template,
    ),
    r.PROJECTS: (
        _referrers(
            "project",
            r.CONNECTION_TEMPLATES,
            r.ACTIVATIONS,
            r.PROJECT_VERSIONS,
            r.CONNECTORS,
            r.NOTIFICATIONS,
            r.ENVIRONMENTS,
        ),
        _project,
    ),
    r.PROJECT_VERSIONS: (_referenced("projectRef", r.PROJECTS), _version),
    r.ACTIVATIONS: (_activation, _notified),
    r.END_USERS: (_referrers("user", r.ACTIVATIONS, r.CONNECTIONS), _end_user),
    r.CONNECTORS: (
        _referenced("projectRef", r.PROJECTS),
        _referrers("connector", r.CONNECTOR_VERSIONS, r.SYSTEMS),
    ),
    r.CONNECTOR_VERSIONS: (_referenced("connectorRef", r.CONNECTORS), _connector_version),
    r.CREDENTIAL_GRANTS: (_grant,),
    r.NOTIFICATION_CHANNELS: (_referrers("channel", r.NOTIFICATIONS),),
    r.CONFIG_MAPS: (
        _referrers("config-map", r.PROJECTS, r.PROJECT_VERSIONS, r.CONNECTORS, r.CONNECTOR_VERSIONS),
        _child,
    ),
    r.SECRETS: (_secret,),
    r.NAMESPACES: (_namespace,),
}
