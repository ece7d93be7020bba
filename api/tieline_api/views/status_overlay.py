"""What is wrong with schemes and credentials, as answers show it at once.

The operator writes its findings into status a moment after a write. Here they are made by the same functions from
what the caches hold now, and laid over the status that the operator left: what a client has just written is judged
in the answer.
"""

from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import ValidationError

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.conversion.times import expired
from tieline_api.credentials.credential_directory import CredentialDirectory
from tieline_api.credentials.credential_secrets import secret_references
from tieline_api.credentials.findings_cache import FindingsCache, SecretFactsCache
from tieline_api.credentials.tokens_in_use import holders_of, token_secret_of
from tieline_core.credentials.linker import scheme_in
from tieline_core.credentials.tenants import mark_in, tenant_of
from tieline_core.credentials.validation.credential_findings import (
    KnownCredential,
    findings,
    recheck_times,
    warnings,
)
from tieline_core.credentials.validation.references import resolve_references, scheme_links
from tieline_core.credentials.validation.scheme_findings import (
    KnownScheme,
    inline_findings,
    references,
    scheme_findings,
)
from tieline_core.credentials.validation.secret_facts import SecretFacts, tokens_of
from tieline_core.identity.ids import object_id, object_name
from tieline_core.kubernetes import Stored
from tieline_core.objects import ObjectView
from tieline_core.resources import Connection, System
from tieline_core.resources.auth_schemes import AuthSchemeConfig
from tieline_core.resources.connections import ConnectionCredential
from tieline_core.resources.objects import ConnectionObject, SystemObject
from tieline_core.resources.parsed_cache import SYSTEM
from tieline_protocol.url_inputs import url_inputs

_MOST = 16


_facts, _judgements = SecretFactsCache(), FindingsCache()


def evict_deleted(cluster: ClusterCache) -> None:
    """Has what was found forgotten together with what it was found of."""
    cluster.secrets.subscribe(_facts.changed)
    for cache in (cluster.systems, cluster.connections):
        cache.subscribe(_judgements.changed)


def system_with_findings(cluster: ClusterCache, obj: SystemObject) -> SystemObject:
    """The System with the findings of now about its auth schemes."""
    versions, now = (_version(obj), *_versions(cluster, obj)), datetime.now(UTC)
    known = None if _leads_elsewhere(obj) else _judgements.find(obj["metadata"]["uid"], versions, now)
    if known is not None:
        return _with_status(obj, authSchemes=known)
    try:
        system = System.read(obj)
    except ValidationError:
        return obj
    schemes, directory = system.spec.auth_scheme_configs, CredentialDirectory(cluster)
    statuses = []
    for scheme in schemes:
        names = {reference.name for reference, _ in references(scheme)}
        facts = {name: _facts.of(cluster, system.namespace, name) for name in names}
        if _is_observed(obj) and not all(one.exists for one in facts.values()):
            # Of a Secret of another type, which no cache here has, the operator says more.
            statuses += [one for one in _status(obj, "authSchemes") if one["id"] == scheme.id]
            continue
        judged = KnownScheme(
            scheme=scheme,
            siblings=schemes,
            namespace=system.namespace,
            secrets=facts,
            links=scheme_links(directory, system.namespace, scheme),
            inputs=url_inputs(obj["spec"]),
        )
        messages = [finding.message.to_dict() for finding in scheme_findings(judged)[:_MOST]]
        statuses.append({"id": scheme.id, "validationMessages": messages})
    _judgements.keep(obj["metadata"]["uid"], versions, statuses)
    return _with_status(obj, authSchemes=statuses)


def connection_with_findings(
    cluster: ClusterCache, obj: ConnectionObject, system: SystemObject | None
) -> ConnectionObject:
    """The Connection with the errors of now, and without credentials of REST's that have expired."""
    now = datetime.now(UTC)
    if obj["metadata"]["name"] == object_name(object_id(obj)):
        left = [item for item in obj["spec"].get("credentials") or () if not expired(item, now)]
        obj = cast("ConnectionObject", {**obj, "spec": {**obj["spec"], "credentials": left}})
    if system is None:
        return obj
    items = obj["spec"].get("credentials") or ()
    kept = tuple(
        (_version(found), holders_of(cluster, found))
        for item in items
        if (found := token_secret_of(cluster, obj, item["id"]))
    )
    sources = (*_versions(cluster, obj), *_versions(cluster, system), *kept)
    versions = (_version(obj), _version(system), len(items), *sources)
    elsewhere = _leads_elsewhere(obj) or _leads_elsewhere(system)
    statuses = None if elsewhere else _judgements.find(obj["metadata"]["uid"], versions, now)
    if statuses is not None:
        return _with_status(obj, credentials=statuses)
    try:
        connection, of = Connection.read(obj), SYSTEM.of(system)
    except ValidationError:
        return obj
    before = {one["id"]: one for one in _status(obj, "credentials")}
    statuses, again = [], []
    for item in connection.spec.credentials:
        known = _known(cluster, obj, system, connection, item, scheme_in(of, item))
        again += recheck_times(known, now)
        if _is_observed(obj) and item.id in before and known.secret and not known.secret.exists:
            statuses.append(before[item.id])
            continue
        errors = [finding.message for finding in findings(known, now)][:_MOST]
        own = [finding.message.to_dict() for finding in inline_findings(item.auth_scheme_config)[:_MOST]]
        judged = {"id": item.id, "errors": errors, "warnings": warnings(known), "validationMessages": own}
        statuses.append({**before.get(item.id, {}), **judged})
    _judgements.keep(obj["metadata"]["uid"], versions, statuses, min(again, default=None))
    return _with_status(obj, credentials=statuses)


def secret_facts(cluster: ClusterCache, namespace: str, name: str) -> SecretFacts:
    """Facts about a Secret of the credential type."""
    return _facts.of(cluster, namespace, name)


def _known(
    cluster: ClusterCache,
    obj: ConnectionObject,
    system: SystemObject,
    connection: Connection,
    item: ConnectionCredential,
    scheme: AuthSchemeConfig | None,
) -> KnownCredential:
    namespace = connection.namespace
    consumer = scheme.oauth1.secret_ref if scheme and scheme.oauth1 else None
    kept = token_secret_of(cluster, obj, item.id)
    tenant = tenant_of(obj["spec"], system["spec"], scheme.to_dict() if scheme else None)

    def facts(where: str, name: str) -> SecretFacts:
        return _facts.of(cluster, where, name)

    return KnownCredential(
        item=item,
        scheme=scheme,
        namespace=namespace,
        system=connection.spec.system_ref.name,
        secret=facts(namespace, item.secret_ref.name) if item.secret_ref else None,
        consumer=facts(namespace, consumer.name) if consumer else None,
        tokens=tokens_of(kept).seen_from(tenant.mark) if kept else None,
        holders=holders_of(cluster, kept) if kept and mark_in(kept) == tenant.mark else 0,
        links=resolve_references(CredentialDirectory(cluster), facts, obj, item, scheme).problems,
    )


def _versions(cluster: ClusterCache, obj: ObjectView) -> tuple[Hashable, ...]:
    """The versions of the Secrets that an object refers to."""
    namespace = obj["metadata"]["namespace"]
    names = sorted(secret_references(obj))
    return tuple(
        _version(found) if (found := cluster.secrets.get(namespace, name)) else name for name in names
    )


def _version(obj: ObjectView) -> Hashable:
    return obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]


def _leads_elsewhere(obj: ObjectView) -> bool:
    """Whether a scheme uses credentials of other connections: what those are like is not in our versions."""
    spec = obj["spec"]
    inline = [item.get("authSchemeConfig") for item in spec.get("credentials") or ()]
    for scheme in (*(spec.get("authSchemeConfigs") or ()), *inline):
        oauth2 = (scheme or {}).get("oauth2") or {}
        grant = oauth2.get("grant") or {}
        named = (grant.get("authorizationCode"), grant.get("password"), (scheme or {}).get("oauth1"))
        clients = [client or {} for client in named]
        if oauth2.get("mtlsEnabled") or any(client.get("credentialId") for client in clients):
            return True
    return False


def _is_observed(obj: ObjectView) -> bool:
    """Whether the operator has seen the spec as it is."""
    seen = (obj.get("status") or {}).get("observedGeneration")
    return seen is not None and seen == obj["metadata"].get("generation")


def _status(obj: ObjectView, field: str) -> list[dict[str, Any]]:
    return list((obj.get("status") or {}).get(field) or ())


def _with_status(obj: Stored, **fields: Any) -> Stored:
    return cast("Stored", {**obj, "status": {**(obj.get("status") or {}), **fields}})
