"""What may be known of a Secret's values without keeping them.

The operator's cache holds these facts instead of values; the API makes them from what it holds. So both judge a
credential by the same functions.
"""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from tieline_core.credentials.exposure import Exposure, exposure_of
from tieline_core.credentials.shared_accounts import account_in
from tieline_core.credentials.tenants import mark_in
from tieline_core.credentials.validation.pem_keys import (
    Certificate,
    SigningKey,
    certificate_of,
    signing_key_of,
)
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.oauth import token_secret_codec
from tieline_protocol.oauth.kept import NOTHING, Kept

# Many services take an API key as the user name, with no password.
_MAY_BE_EMPTY = frozenset({"password"})
# What is no secret, and decides where a token is asked for.
_PUBLIC = ("tokenUrl", "mTLSEnabled", "mTLSCredentialId")
_SIGNING = ("key", "value", "consumerSecret")
# Linux takes 128 KiB for a variable with its name, of at most 256 characters, and what stands between and behind.
_MAX_VARIABLE_BYTES = 128 * 1024 - 258


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueFacts:
    """What the values are like. Most have nothing special about them."""

    keys: frozenset[str] = frozenset()
    """Keys that hold something."""
    no_text: frozenset[str] = frozenset()
    """Keys whose bytes are not UTF-8."""
    no_variable: frozenset[str] = frozenset()
    """Keys whose value is too long for an environment variable, or has a NUL in it: no process would start."""
    broken: frozenset[str] = frozenset()
    """Keys whose value has a line break or NUL in it, which no header can carry."""
    colon: bool = False
    """Whether the user name has a colon, which ends it in basic authentication."""
    certificate: Certificate | None = None
    signing: Mapping[str, SigningKey] = field(default_factory=dict)
    """Per key that may be signed with and is in PEM."""
    public: Mapping[str, str] = field(default_factory=dict)
    expires_at: datetime | None = None
    """When the access token ends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretFacts:
    """What is known of a Secret that something refers to."""

    name: str
    exists: bool = False
    right_type: bool = False
    version: str = ""
    """Another one with each write."""
    values: ValueFacts = field(default_factory=ValueFacts)
    exposure: Exposure | None = None
    """Whose code may read it; None where its owner opened it to none."""

    @property
    def keys(self) -> frozenset[str]:
        """Keys that hold something."""
        return self.values.keys


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenFacts:
    """What is known of the tokens that the platform keeps for a credential."""

    obtained: bool = False
    """Whether there is an access token."""
    expires_at: datetime | None = None
    due_at: datetime | None = None
    """When it is to be renewed; None where it cannot be."""
    refused: str | None = None
    """The error code of a refusal that stands, which may be empty."""
    not_before: datetime | None = None
    """Until when the provider is left alone, after it could not be asked."""
    kept: Kept = NOTHING
    """What the connection keeps of the provider's answers. Nothing of it is secret."""
    tenant: str = ""
    """The mark of the tenant that they are of (``Tenant.mark``)."""
    account: str = ""
    """See ``shared_accounts.account_in``."""
    of_other_tenant: bool = False
    """Whether there are tokens, and another tenant's than the connection's: they are not used."""

    def seen_from(self, tenant: str) -> "TokenFacts":
        """The facts for a connection of the tenant with this mark."""
        if not self.obtained or self.tenant == tenant:
            return self
        return replace(
            self,
            obtained=False,
            expires_at=None,
            due_at=None,
            kept=NOTHING,
            account="",
            of_other_tenant=True,
        )


def values_of(data: Mapping[str, str]) -> ValueFacts:
    """The facts of a Secret's data (values in Kubernetes' base64)."""
    values = {key: b64decode(value) for key, value in data.items()}
    pem = {key: signing_key_of(values[key]) for key in _SIGNING if key in values}
    return ValueFacts(
        keys=frozenset(key for key, value in values.items() if value or key in _MAY_BE_EMPTY),
        no_text=frozenset(key for key, value in values.items() if not _is_text(value)),
        no_variable=frozenset(
            key for key, value in values.items() if b"\0" in value or len(value) > _MAX_VARIABLE_BYTES
        ),
        broken=frozenset(key for key, value in values.items() if any(one in value for one in b"\r\n\0")),
        colon=b":" in values.get("username", b""),
        certificate=_certificate(values),
        signing={key: found for key, found in pem.items() if found.pem},
        public={key: values[key].decode("utf-8", "replace") for key in _PUBLIC if key in values},
        expires_at=token_secret_codec.moment(values.get("expiresAt", b"").decode("utf-8", "replace")),
    )


def facts_of(name: str, secret: Mapping[str, Any] | None, *, other_type: bool = False) -> SecretFacts:
    """The facts of a Secret as the API server has it; ``other_type`` where one that cannot be used is there."""
    if secret is None or secret.get("type") != CREDENTIAL_TYPE:
        return SecretFacts(name=name, exists=other_type or secret is not None)
    return SecretFacts(
        name=name,
        exists=True,
        right_type=True,
        version=secret["metadata"].get("resourceVersion", ""),
        values=values_of(secret.get("data") or {}),
        exposure=exposure_of(secret["metadata"]),
    )


def tokens_of(secret: Mapping[str, Any]) -> TokenFacts:
    """The facts of a Secret of tokens: annotations, and whether there is an access token and until when."""
    annotations = secret["metadata"].get("annotations") or {}
    data = secret.get("data") or {}
    marker = annotations.get(token_secret_codec.REFUSED)
    return TokenFacts(
        obtained=bool(data.get("accessToken")),
        expires_at=token_secret_codec.moment(b64decode(data.get("expiresAt", "")).decode("utf-8", "replace")),
        due_at=token_secret_codec.moment(annotations.get(token_secret_codec.DUE_AT)),
        refused=marker.partition(":")[2] if marker else None,
        not_before=token_secret_codec.moment(
            annotations.get(token_secret_codec.NOT_BEFORE, "").partition(" ")[0]
        ),
        kept=Kept.decoded(b64decode(data.get(token_secret_codec.KEPT, "")).decode("utf-8", "replace")),
        tenant=mark_in(secret),
        account=account_in(secret),
    )


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _certificate(values: Mapping[str, bytes]) -> Certificate | None:
    if not values.get("certificate") or not values.get("key"):
        return None
    return certificate_of(certificate=values["certificate"], key=values["key"], ca=values.get("ca", b""))
