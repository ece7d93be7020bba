"""Secrets of a connection that have had their time: those of expired credentials, and tokens of removed ones.

Only what the platform has made is deleted (it is owned by the Connection); Secrets that Git or a person keeps
stay. What is young stays for a while, too: the Connection that refers to it may come by its watch after it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tieline_core.credentials.checking import WITH_TOKENS, has_expired
from tieline_core.ids import parse_time
from tieline_core.kube.resources import SECRETS
from tieline_core.names import tokens_name
from tieline_core.owners import is_owned
from tieline_core.resources import Connection
from tieline_operator.indexes import joined
from tieline_operator.plans import Deletion, Object
from tieline_operator.world import View

_YOUNG = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class Leftovers:
    """What is to go now, and when to look again for what may go later."""

    deletions: tuple[Deletion, ...] = ()
    again: datetime | None = None


def leftovers(secrets: View, obj: Object, connection: Connection, now: datetime) -> Leftovers:
    """The Secrets that go; ``secrets`` as the operator's cache has them."""
    deletions, waits = [], []
    for secret, ended in _unused(secrets, obj, connection, now):
        created = _created(secret)
        settled = created is None or now - created >= _YOUNG or (ended is not None and created < ended)
        if settled:
            deletions.append(Deletion.of(SECRETS, secret))
        elif created is not None:
            waits.append(created + _YOUNG)
    return Leftovers(deletions=tuple(deletions), again=min(waits, default=None))


def _unused(
    secrets: View, obj: Object, connection: Connection, now: datetime
) -> Iterator[tuple[Object, datetime | None]]:
    """Each with the moment at which its credential has expired; None where there is no such credential."""
    namespace, items = connection.namespace, connection.spec.credentials
    gone = [item for item in items if has_expired(item, now)]
    kept = [item for item in items if not has_expired(item, now)]
    used = {item.secret_ref.name for item in kept if item.secret_ref}
    for item in gone:
        secret = secrets.get(namespace, item.secret_ref.name) if item.secret_ref else None
        if (
            secret is not None
            and secret["metadata"]["name"] not in used
            and is_owned(secret, obj["metadata"]["uid"])
        ):
            yield secret, item.expires_at
    with_tokens = {tokens_name(connection.name, item.id) for item in kept if item.type in WITH_TOKENS}
    ended = {tokens_name(connection.name, item.id): item.expires_at for item in gone}
    for secret in secrets.by_index("tokens-of", joined(namespace, connection.name)):
        name = secret["metadata"]["name"]
        if name not in with_tokens and is_owned(secret, obj["metadata"]["uid"]):
            yield secret, ended.get(name)


def _created(secret: Object) -> datetime | None:
    text = secret["metadata"].get("creationTimestamp")
    return parse_time(text) if text else None
