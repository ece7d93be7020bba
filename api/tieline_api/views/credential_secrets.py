"""What connections say of the Secrets behind their credentials: when values end, and who manages them."""

from collections.abc import Iterator
from datetime import datetime

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.conversion.times import in_utc
from tieline_api.credentials.credential_secrets import MADE_FOR
from tieline_api.credentials.tokens_in_use import token_secret_of
from tieline_api.schemas import connections as rest
from tieline_api.views.status_overlay import secret_facts
from tieline_core.credentials.validation.credential_findings import WITH_TOKENS
from tieline_core.credentials.validation.secret_facts import ValueFacts, tokens_of
from tieline_core.identity.gitops import applied_by
from tieline_core.identity.ids import credential_item_id, format_time, object_id
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.objects import ConnectionCredentialDict, ConnectionObject

_NOBODY = "kubectl or another client of Kubernetes"


def expiries_of(cluster: ClusterCache, connection: ConnectionObject) -> list[rest.Expiry]:
    """What of a connection ends without being renewed, the earliest first."""
    identifier = object_id(connection)
    found = [
        (at, what, credential_item_id(identifier, item["id"]))
        for item in connection["spec"].get("credentials") or ()
        for what, at in _moments(cluster, connection, item)
    ]
    return [
        rest.Expiry(what=what, at=format_time(at), credential_id=owner) for at, what, owner in sorted(found)
    ]


def ends_before(cluster: ClusterCache, connection: ConnectionObject, moment: datetime) -> bool:
    """Whether something of a connection ends before a moment, or has ended."""
    return any(
        at < moment
        for item in connection["spec"].get("credentials") or ()
        for _, at in _moments(cluster, connection, item)
    )


def secret_of(
    cluster: ClusterCache, connection: ConnectionObject, item: ConnectionCredentialDict
) -> rest.CredentialSecret | None:
    """The Secret of others that has the values of a credential; None where REST has made it, and for none."""
    name = item.get("secretRef", {}).get("name")
    if not name:
        return None
    found = cluster.secrets.get(connection["metadata"]["namespace"], name)
    if found is None:
        return rest.CredentialSecret(name=name, managed_by=None)
    if MADE_FOR in (found["metadata"].get("annotations") or {}):
        return None
    return rest.CredentialSecret(name=name, managed_by=applied_by(found) or _NOBODY)


def _moments(
    cluster: ClusterCache, connection: ConnectionObject, item: ConnectionCredentialDict
) -> Iterator[tuple[rest.ExpiryKind, datetime]]:
    if at := in_utc(item.get("expiresAt")):
        yield rest.ExpiryKind.CREDENTIAL, at
    values = ValueFacts()
    if name := item.get("secretRef", {}).get("name"):
        values = secret_facts(cluster, connection["metadata"]["namespace"], name).values
    if values.certificate and values.certificate.not_after:
        yield rest.ExpiryKind.CERTIFICATE, values.certificate.not_after
    if item["type"] not in WITH_TOKENS:
        return
    kept = token_secret_of(cluster, connection, item["id"])
    if kept is not None:
        tokens = tokens_of(kept)
        if tokens.obtained and tokens.expires_at and tokens.due_at is None:
            yield rest.ExpiryKind.TOKEN, tokens.expires_at
    elif (
        item["type"] == CredentialType.OAUTH2_TOKEN.value
        and values.expires_at
        and "refreshToken" not in values.keys
    ):
        yield rest.ExpiryKind.TOKEN, values.expires_at
