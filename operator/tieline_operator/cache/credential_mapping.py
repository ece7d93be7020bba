"""Event mapping for borrowed and linked credentials: clients that schemes name, certificates, grants."""

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from tieline_core.credentials.linker import LinkedCredential, canonical, credential_ids, granted
from tieline_core.identity.ids import object_id
from tieline_core.kubernetes import resources as r
from tieline_core.resources import CredentialGrant
from tieline_core.resources.connections import CredentialType
from tieline_operator.apply.plan import Key, Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.cache.indexers import joined, key_of, namespace_of

_LINKABLE = frozenset({CredentialType.OAUTH2_CLIENT, CredentialType.CERTIFICATE})


def keys_for_connection(listers: Listers, obj: Object) -> Iterator[Key]:
    """Grants that name the connection, and all that its clients and certificates serve."""
    metadata, spec = obj["metadata"], obj.get("spec", {})
    namespace = namespace_of(obj)
    for name in (metadata["name"], object_id(obj), object_id(obj).lower()):
        for grant in listers[r.CREDENTIAL_GRANTS].by_index("connection", joined(namespace, name)):
            yield key_of(r.CREDENTIAL_GRANTS, grant)
    kinds = {item.get("type") for item in spec.get("credentials", [])}
    if kinds & _LINKABLE:
        yield from _users_of(listers, credential_ids(obj))
    if CredentialType.CERTIFICATE in kinds and not spec.get("endUserRef"):
        system = (spec.get("systemRef") or {}).get("name")
        yield from _connections_of(listers, namespace, system)


def keys_for_grant(listers: Listers, obj: Object) -> Iterator[Key]:
    """All that use one of the credentials that are granted, or were until now."""
    try:
        grant = CredentialGrant.read(obj)
    except ValidationError:
        return  # an older definition let it in; it grants nothing
    directory = CacheDirectory(listers)
    found = [granted(directory, grant.namespace, given) for given in grant.spec.to]
    yield from _users_of(listers, [canonical(one.id) for one in found if isinstance(one, LinkedCredential)])


def _users_of(listers: Listers, credentials: Iterable[str]) -> Iterator[Key]:
    """Systems and connections whose schemes name one of the credentials, in any namespace."""
    for identifier in credentials:
        for connection in listers[r.CONNECTIONS].by_index("client", identifier):
            yield key_of(r.CONNECTIONS, connection)
        for system in listers[r.SYSTEMS].by_index("client", identifier):
            yield key_of(r.SYSTEMS, system)
            yield from _connections_of(listers, namespace_of(system), system["metadata"]["name"])


def _connections_of(listers: Listers, namespace: str, system: str | None) -> Iterator[Key]:
    for other in listers[r.CONNECTIONS].by_index("system", joined(namespace, system)):
        yield key_of(r.CONNECTIONS, other)
