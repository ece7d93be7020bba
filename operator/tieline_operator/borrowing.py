"""Whom a change of a borrowed or linked credential concerns: clients that schemes name, certificates, grants."""

from collections.abc import Iterable, Iterator, Mapping

from pydantic import ValidationError

from tieline_core.ids import object_id
from tieline_core.kube import Resource
from tieline_core.kube import resources as r
from tieline_core.oauth.linking import Linked, canonical, credential_ids, granted
from tieline_core.resources import CredentialGrant
from tieline_core.resources.connections import CredentialType
from tieline_operator.indexes import joined, namespace_of
from tieline_operator.lookups import CacheDirectory
from tieline_operator.plans import Key, Object
from tieline_operator.world import View

Views = Mapping[Resource, View]

_LINKABLE = frozenset({CredentialType.OAUTH2_CLIENT, CredentialType.CERTIFICATE})


def concerned_by_connection(views: Views, obj: Object) -> Iterator[Key]:
    """Grants that name the connection, and all that its clients and certificates serve."""
    metadata, spec = obj["metadata"], obj.get("spec", {})
    namespace = namespace_of(obj)
    for name in (metadata["name"], object_id(obj), object_id(obj).lower()):
        for grant in views[r.CREDENTIAL_GRANTS].by_index("connection", joined(namespace, name)):
            yield _key(r.CREDENTIAL_GRANTS, grant)
    kinds = {item.get("type") for item in spec.get("credentials", [])}
    if kinds & _LINKABLE:
        yield from _users_of(views, credential_ids(obj))
    if CredentialType.CERTIFICATE in kinds and not spec.get("endUserRef"):
        system = (spec.get("systemRef") or {}).get("name")
        yield from _connections_of(views, namespace, system)


def concerned_by_grant(views: Views, obj: Object) -> Iterator[Key]:
    """All that use one of the credentials that are granted, or were until now."""
    try:
        grant = CredentialGrant.read(obj)
    except ValidationError:
        return  # an older definition let it in; it grants nothing
    directory = CacheDirectory(views)
    found = [granted(directory, grant.namespace, given) for given in grant.spec.to]
    yield from _users_of(views, [canonical(one.id) for one in found if isinstance(one, Linked)])


def _users_of(views: Views, credentials: Iterable[str]) -> Iterator[Key]:
    """Systems and connections whose schemes name one of the credentials, in any namespace."""
    for identifier in credentials:
        for connection in views[r.CONNECTIONS].by_index("client", identifier):
            yield _key(r.CONNECTIONS, connection)
        for system in views[r.SYSTEMS].by_index("client", identifier):
            yield _key(r.SYSTEMS, system)
            yield from _connections_of(views, namespace_of(system), system["metadata"]["name"])


def _connections_of(views: Views, namespace: str, system: str | None) -> Iterator[Key]:
    for other in views[r.CONNECTIONS].by_index("system", joined(namespace, system)):
        yield _key(r.CONNECTIONS, other)


def _key(resource: Resource, obj: Object) -> Key:
    return Key(resource.kind, namespace_of(obj), obj["metadata"]["name"])
