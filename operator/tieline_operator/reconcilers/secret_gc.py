"""Garbage collection of a connection's Secrets: those of expired credentials, and tokens of removed ones.

Only Secrets that the platform created are deleted (they are owned by the Connection).
"""

from collections.abc import Iterator
from datetime import datetime

from tieline_core.credentials.validation.credential_findings import WITH_TOKENS, has_expired
from tieline_core.identity.names import tokens_name
from tieline_core.identity.owner_references import is_owned
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.resources import Connection
from tieline_operator.apply.plan import Deletion, Object
from tieline_operator.cache.cluster_cache import ClusterCache, Lister
from tieline_operator.cache.indexers import joined


async def unused_secrets(cache: ClusterCache, connection: Connection, now: datetime) -> tuple[Deletion, ...]:
    """The Secrets of a Connection to delete, each only in its present version.

    Secrets and Connections arrive by different watches, so a Secret may be seen before the credential that it is for.
    So where a Secret seems unused, the Connection is read from the API server, and decides.
    """
    secrets = cache[SECRETS]
    if not any(_unused(secrets, connection, now)):
        return ()
    live = await cache.live_connection(connection.namespace, connection.name)
    if live is None or live["metadata"]["uid"] != connection.metadata.uid:
        return ()
    unused = _unused(secrets, Connection.read(live), now)
    return tuple(Deletion.of(SECRETS, secret, unchanged=True) for secret in unused)


def _unused(secrets: Lister, connection: Connection, now: datetime) -> Iterator[Object]:
    namespace, uid, items = connection.namespace, connection.metadata.uid, connection.spec.credentials
    kept = [item for item in items if not has_expired(item, now)]
    used = {item.secret_ref.name for item in kept if item.secret_ref}
    for name in {item.secret_ref.name for item in items if item.secret_ref} - used:
        secret = secrets.get(namespace, name)
        if secret is not None and is_owned(secret, uid):
            yield secret
    with_tokens = {tokens_name(connection.name, item.id) for item in kept if item.type in WITH_TOKENS}
    for secret in secrets.by_index("tokens-of", joined(namespace, connection.name)):
        if secret["metadata"]["name"] not in with_tokens and is_owned(secret, uid):
            yield secret
