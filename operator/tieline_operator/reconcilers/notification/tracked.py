"""Finds the connections and activations of an environment, as lifecycle events are about them."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from tieline_core.credentials.refusals import CONDITION
from tieline_core.credentials.validation.credential_findings import EXPIRED, REFUSED
from tieline_core.identity.ids import object_id, parse_time
from tieline_core.kubernetes.resources import (
    ACTIVATIONS,
    CONNECTION_TEMPLATES,
    CONNECTIONS,
    END_USERS,
    SYSTEMS,
)
from tieline_core.resources import Project
from tieline_operator.apply.conditions import find_condition
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined, ref
from tieline_operator.reconcilers.notification.lifecycle import Observed, State, Subject

_UNAUTHORISED = frozenset({EXPIRED, REFUSED})
_MAX_MESSAGE = 1500


def tracked(cache: ClusterCache, project: Project, environment: str) -> Iterator[Observed]:
    """The activations of users, and the connections that are made for or used by the environment."""
    namespace, key = project.namespace, joined(project.namespace, project.name, environment)
    templates = {
        one["metadata"]["name"]: one for one in cache[CONNECTION_TEMPLATES].by_index("environment", key)
    }
    activations = cache[ACTIVATIONS].by_index("environment", key)
    used: dict[str, str] = {}
    for name, template in templates.items():
        if linked := ref(template, "connectionRef"):
            used[linked] = object_id(template)
        for connection in cache[CONNECTIONS].by_index("template", joined(namespace, name)):
            used[connection["metadata"]["name"]] = object_id(template)
    for activation in activations:
        for item in activation["spec"].get("connections") or ():
            template_of = templates.get(item.get("connectionTemplate", ""))
            name = (item.get("connectionRef") or {}).get("name", "")
            used.setdefault(name, object_id(template_of) if template_of else "")
        if ref(activation, "endUserRef"):
            yield _activation(cache, activation)
    yield from _connections(cache, namespace, used.items())


def _connections(cache: ClusterCache, namespace: str, used: Iterable[tuple[str, str]]) -> Iterator[Observed]:
    for name, template in used:
        connection = cache[CONNECTIONS].get(namespace, name)
        if connection is None:
            continue
        state, since, message = _state(connection)
        user, external = _user(cache, connection)
        system = cache[SYSTEMS].get(namespace, ref(connection, "systemRef") or "")
        yield Observed(
            subject=Subject.CONNECTION,
            id=object_id(connection),
            created=_created(connection),
            state=state,
            since=since,
            message=message,
            name=connection["spec"].get("name", ""),
            user_id=user,
            external_id=external,
            system_id=object_id(system) if system else "",
            template_id=template,
        )


def _activation(cache: ClusterCache, activation: Object) -> Observed:
    user, external = _user(cache, activation)
    created = _created(activation)
    return Observed(
        subject=Subject.ACTIVATION,
        id=object_id(activation),
        created=created,
        since=created,
        user_id=user,
        external_id=external,
    )


def _state(connection: Object) -> tuple[State, datetime, str]:
    """What is wrong with a connection, since when, and why."""
    ready, accepted = find_condition(connection), find_condition(connection, CONDITION)
    if ready and ready["status"] == "False":
        state, wrong = State.UNAUTHORISED if ready["reason"] in _UNAUTHORISED else State.FAILED, ready
    elif accepted and accepted["status"] == "False":
        state, wrong = State.UNAUTHORISED, accepted
    else:
        return State.FINE, _created(connection), ""
    return state, parse_time(wrong["lastTransitionTime"]), wrong["message"][:_MAX_MESSAGE]


def _user(cache: ClusterCache, obj: Object) -> tuple[str, str]:
    """Id and external id of the user whose an object is; empty where it is nobody's."""
    name = ref(obj, "endUserRef")
    user = cache[END_USERS].get(obj["metadata"]["namespace"], name) if name else None
    return (object_id(user), user["spec"]["externalId"]) if user else ("", "")


def _created(obj: Object) -> datetime:
    return parse_time(obj["metadata"]["creationTimestamp"])
