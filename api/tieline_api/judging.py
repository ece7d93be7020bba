"""What is wrong with schemes and credentials, told at once.

The operator writes its findings into status a moment after a write. Here they are made by the same functions from
what the caches hold now, and laid over the status that the operator left: what a client has just written is judged
in the answer.
"""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from tieline_api.conversion.times import expired
from tieline_api.runtime_credentials import kept_tokens
from tieline_api.store.lookups import CacheLookups
from tieline_api.store.world import World
from tieline_core.credentials.checking import Known, findings
from tieline_core.credentials.facts import SecretFacts, facts_of, tokens_of
from tieline_core.credentials.links import links_of, scheme_links
from tieline_core.credentials.schemes import KnownScheme, inline_findings, references, scheme_findings
from tieline_core.ids import object_id, object_name
from tieline_core.resources import Connection, System
from tieline_core.resources.connections import ConnectionCredential

Obj = Mapping[str, Any]

_REMEMBERED = 20_000
_MOST = 16


class _Facts:
    """Facts of Secrets; those of a version are made once, because keys take a millisecond to read."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], SecretFacts] = OrderedDict()

    def of(self, world: World, namespace: str, name: str) -> SecretFacts:
        found = world.secrets.get(namespace, name)
        if found is None:
            return SecretFacts(name=name)
        key = found["metadata"]["uid"], found["metadata"]["resourceVersion"]
        facts = self._known.get(key)
        if facts is None:
            facts = self._known[key] = facts_of(name, found)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return facts


_facts = _Facts()


class _Directory(CacheLookups):
    """The caches without values."""

    def __init__(self, world: World) -> None:
        self._world = world


def judged_system(world: World, obj: Obj) -> Obj:
    """The System with the findings of now about its auth schemes."""
    try:
        system = System.read(obj)
    except ValidationError:
        return obj
    schemes, directory = system.spec.auth_scheme_configs, _Directory(world)
    told = []
    for scheme in schemes:
        names = {reference.name for reference, _ in references(scheme)}
        facts = {name: _facts.of(world, system.namespace, name) for name in names}
        if _is_told(obj) and not all(one.exists for one in facts.values()):
            # Of a Secret of another type, which no cache here has, the operator says more.
            told += [one for one in _status(obj, "authSchemes") if one["id"] == scheme.id]
            continue
        known = KnownScheme(
            scheme=scheme,
            siblings=schemes,
            namespace=system.namespace,
            secrets=facts,
            links=scheme_links(directory, system.namespace, scheme),
        )
        messages = [finding.message.to_dict() for finding in scheme_findings(known)[:_MOST]]
        told.append({"id": scheme.id, "validationMessages": messages})
    return _with_status(obj, authSchemes=told)


def judged_connection(world: World, obj: Obj, system: Obj | None) -> Obj:
    """The Connection with the errors of now, and without credentials of REST's that have expired."""
    now = datetime.now(UTC)
    if obj["metadata"]["name"] == object_name(object_id(obj)):
        left = [item for item in obj["spec"].get("credentials") or () if not expired(item, now)]
        obj = {**obj, "spec": {**obj["spec"], "credentials": left}}
    if system is None:
        return obj
    try:
        connection, schemes = Connection.read(obj), System.read(system).spec.auth_scheme_configs
    except ValidationError:
        return obj
    before = {one["id"]: one for one in _status(obj, "credentials")}
    told = []
    for item in connection.spec.credentials:
        scheme = item.auth_scheme_config or next(
            (one for one in schemes if one.id == item.auth_scheme_config_id), None
        )
        known = _known(world, obj, connection, item, scheme)
        if _is_told(obj) and item.id in before and known.secret and not known.secret.exists:
            told.append(before[item.id])
            continue
        errors = [finding.message for finding in findings(known, now)][:_MOST]
        own = [finding.message.to_dict() for finding in inline_findings(item.auth_scheme_config)[:_MOST]]
        judged = {"id": item.id, "errors": errors, "validationMessages": own}
        told.append({**before.get(item.id, {}), **judged})
    return _with_status(obj, credentials=told)


def _known(world: World, obj: Obj, connection: Connection, item: ConnectionCredential, scheme: Any) -> Known:
    namespace = connection.namespace
    consumer = scheme.oauth1.secret_ref if scheme and scheme.oauth1 else None
    kept = kept_tokens(world, obj, {"id": item.id})

    def facts(where: str, name: str) -> SecretFacts:
        return _facts.of(world, where, name)

    return Known(
        item=item,
        scheme=scheme,
        namespace=namespace,
        system=connection.spec.system_ref.name,
        secret=facts(namespace, item.secret_ref.name) if item.secret_ref else None,
        consumer=facts(namespace, consumer.name) if consumer else None,
        tokens=tokens_of(kept) if kept else None,
        links=links_of(_Directory(world), facts, obj, item, scheme).problems,
    )


def _is_told(obj: Obj) -> bool:
    """Whether the operator has seen the spec as it is."""
    seen = (obj.get("status") or {}).get("observedGeneration")
    return seen is not None and seen == obj["metadata"].get("generation")


def _status(obj: Obj, field: str) -> list[dict[str, Any]]:
    return list((obj.get("status") or {}).get(field) or ())


def _with_status(obj: Obj, **fields: Any) -> Obj:
    return {**obj, "status": {**(obj.get("status") or {}), **fields}}
