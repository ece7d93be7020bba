"""The tokens that the platform keeps for a connection's credentials, as far as the connection may use them."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.indexes import by_account
from tieline_api.conversion.connections import scheme_item
from tieline_core.credentials.tenants import mark_in, tenant_of, without_tokens_of_others
from tieline_core.oauth.token_secret_codec import KEPT
from tieline_core.oauth.token_secrets import holds_tokens_of, secret_key_of
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import (
    AuthSchemeConfigDict,
    ConnectionCredentialDict,
    ConnectionObject,
    SystemObject,
)
from tieline_protocol.oauth.kept import NOTHING, Kept


def token_secret_of(cluster: ClusterCache, connection: ConnectionObject, item_id: str) -> ObjectView | None:
    """The Secret with the tokens that the platform keeps for a credential; only the connection's own."""
    found = cluster.secrets.get(*secret_key_of(connection, item_id))
    return found if found is not None and holds_tokens_of(found, connection) else None


def holders_of(cluster: ClusterCache, secret: ObjectView) -> int:
    """How many connections of the organisation hold tokens of the same account as a Secret; 0 if that is not known."""
    return sum(len(cluster.secrets.by_index("account", key)) for key in by_account(secret))


@dataclass(frozen=True, kw_only=True, slots=True)
class CredentialTokens:
    """What is kept for one credential."""

    scheme: AuthSchemeConfigDict | None
    """The credential's auth scheme; None where the System does not have it."""
    secret: ObjectView | None = None
    """The Secret with the tokens, without them where they are of another tenant of the provider."""
    are_of_other_tenant: bool = False


@dataclass(frozen=True)
class ConnectionTokens:
    """What is kept for the credentials of a connection; each is looked up once."""

    cluster: ClusterCache
    connection: ConnectionObject

    @cached_property
    def system(self) -> SystemObject | None:
        """The connection's System, where it is known."""
        return self.cluster.referred(self.cluster.systems, self.connection, "systemRef")

    @property
    def system_spec(self) -> ObjectView:
        """The spec of the System; empty where it is not known."""
        return self.system["spec"] if self.system else {}

    def of(self, item_id: str) -> CredentialTokens:
        """What is kept for one of the connection's credentials."""
        return self._by_item[item_id]

    @cached_property
    def kept(self) -> Kept:
        """What the connection keeps of its providers' answers."""
        found = NOTHING
        for one in self._by_item.values():
            data = (one.secret or {}).get("data") or {}
            if KEPT in data:
                found = found.merged(Kept.decoded(b64decode(data[KEPT]).decode("utf-8", "replace")))
        return found

    @cached_property
    def _by_item(self) -> Mapping[str, CredentialTokens]:
        return {item["id"]: self._look(item) for item in self.connection["spec"].get("credentials") or ()}

    def _look(self, item: ConnectionCredentialDict) -> CredentialTokens:
        scheme = scheme_item(item, self.system)
        secret = token_secret_of(self.cluster, self.connection, item["id"])
        if secret is None:
            return CredentialTokens(scheme=scheme)
        tenant = tenant_of(self.connection["spec"], self.system_spec, scheme)
        return CredentialTokens(
            scheme=scheme,
            secret=without_tokens_of_others(secret, tenant),
            are_of_other_tenant=mark_in(secret) != tenant.mark,
        )
