"""The Secrets of the event engine in the release's namespace: what they hold, and whether it can be used. Pure."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tieline_core.engine.server_config import EngineConfig, tls_config
from tieline_core.engine.streams import StreamLimits, account_limits, environment_streams, fingerprint
from tieline_core.engine.trust import AccountSigner, EngineTrust, InvalidTrustError, new_encryption_key
from tieline_core.identity.ids import new_id, parse_time
from tieline_core.tls import TlsMode
from tieline_engine.credentials import Credentials
from tieline_operator.apply.plan import Manifest, Object
from tieline_operator.engine.credentials import VALID, credentials_annotations, seconds_to_renewal
from tieline_operator.workload.network_policies import ENGINE
from tieline_operator.workload.pod_template import ENGINE_CREDENTIALS
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.nkeys import KeyPair

TRUST_SECRET = "tieline-engine-trust"  # noqa: S105  (a name)
CONFIG_SECRET = "tieline-engine-config"  # noqa: S105  (a name)
API_SECRET = "tieline-engine-api"  # noqa: S105  (a name)
API_SIGNER = "signer.seed"
"""The value of the API's Secret with the key by which it signs its users in environments' accounts."""
ENCRYPTION_KEY = "encryption-key"
PREVIOUS_SIGNER = "previous-signer"
RELEASE_ID = "release-id"
CONFIG_FILE = "nats.conf"
TLS_CONFIG_FILES = {TlsMode.OPTIONAL: "nats-tls-optional.conf", TlsMode.REQUIRED: "nats-tls-required.conf"}
"""Files that add TLS to ``CONFIG_FILE``. The StatefulSet says which one its servers start with."""
CERTIFICATES = "/etc/tieline-engine-tls"
"""Where the StatefulSet mounts certificate and key."""
_STORAGE = "/data"
_RELEASE_TAG, _NAMESPACE_TAG = "release:", "namespace:"
_API_USER = "api"
_PUBLIC_KEY = re.compile(r"A[A-Z2-7]{55}")
_LABELS = {
    "app.kubernetes.io/name": ENGINE,
    "app.kubernetes.io/part-of": "tieline",
    "app.kubernetes.io/managed-by": "tieline-operator",
}


@dataclass(frozen=True, kw_only=True)
class EngineKeys:
    """What the trust Secret holds."""

    trust: EngineTrust = field(repr=False)
    """All keys."""
    encryption_key: str = field(repr=False)
    """With which the servers encrypt what they store."""
    previous_signers: tuple[str, ...] = ()
    """Public keys whose users stay valid."""
    release: str
    """Tells this installation from others that use the same engine."""
    created: datetime
    """When the Secret was created."""

    @property
    def signer(self) -> AccountSigner:
        """Signs users of the platform's account, and leads to those of environments' accounts."""
        return self.trust.users

    def environment_jwt(
        self,
        streams: EventStreams,
        limits: StreamLimits,
        namespace: str,
        at: datetime,
        *,
        connections: int | None = None,
        revoked_until: datetime | None = None,
    ) -> str:
        """The JWT of an environment's account, with tags that say whose it is."""
        return self.trust.environment_jwt(
            streams,
            account_limits(limits, connections=connections),
            at=at,
            previous_signers=self.previous_signers,
            tags=[f"{_RELEASE_TAG}{self.release.lower()}", f"{_NAMESPACE_TAG}{namespace}"],
            revoked_until=revoked_until,
        )

    def owned_environment(self, account: str, claims: Mapping[str, Any]) -> tuple[EventStreams, str] | None:
        """The environment of an account, and its namespace; None for one that this installation has not made."""
        organisation, _, environment = str(claims.get("name")).partition(".")
        streams = EventStreams(organisation, environment)
        tags = (claims.get("nats") or {}).get("tags") or ()
        namespaces = [tag.removeprefix(_NAMESPACE_TAG) for tag in tags if tag.startswith(_NAMESPACE_TAG)]
        if f"{_RELEASE_TAG}{self.release.lower()}" not in tags or len(namespaces) != 1:
            return None
        if self.trust.environment_account(streams) != account:
            return None
        return streams, namespaces[0]

    def environment_settings(self, streams: EventStreams, limits: StreamLimits) -> str:
        """The fingerprint of an environment's account and streams. It does not depend on how many pods there are."""
        account = self.trust.environment_fingerprint(
            streams, account_limits(limits), previous_signers=self.previous_signers
        )
        return fingerprint(environment_streams(streams, limits), limits, account)

    def platform_jwt(self, at: datetime) -> str:
        """The JWT of the platform's account."""
        accounts = self.trust.accounts(at, previous_signers=self.previous_signers)
        return accounts[self.signer.account]


def new_trust_secret(namespace: str) -> Manifest:
    """A Secret with new keys."""
    values = EngineTrust().to_values() | {ENCRYPTION_KEY: new_encryption_key(), RELEASE_ID: new_id()}
    return _secret(TRUST_SECRET, namespace, values)


def read_trust_secret(secret: Object) -> EngineKeys:
    """The keys in a Secret. Raises InvalidTrustError, whose message names the wrong value and does not quote it."""
    values = _values(secret)
    previous = tuple(_text(values, PREVIOUS_SIGNER).split())
    if not all(_PUBLIC_KEY.fullmatch(key) for key in previous):
        raise InvalidTrustError(f"The value {PREVIOUS_SIGNER} is no public key of an account")
    trust = EngineTrust.from_values(values)
    if not _text(values, ENCRYPTION_KEY):
        raise InvalidTrustError(f"The value {ENCRYPTION_KEY} is missing")
    metadata = secret["metadata"]
    return EngineKeys(
        trust=trust,
        encryption_key=_text(values, ENCRYPTION_KEY),
        previous_signers=previous,
        release=_text(values, RELEASE_ID) or metadata["uid"],
        created=parse_time(metadata["creationTimestamp"]),
    )


def config_secret(keys: EngineKeys, namespace: str, *, replicas: int) -> Manifest:
    """The Secret with the configuration of the engine's servers, and the key with which they encrypt what they store.

    It is the same each time it is made from the same keys.
    """
    # Several servers find each other by the names that the StatefulSet gives them.
    hosts = (f"{ENGINE}-{number}.{ENGINE}-headless.{namespace}.svc" for number in range(replicas))
    config = EngineConfig(
        operator=keys.trust.operator_jwt(keys.created),
        system_account=keys.trust.system.public_key,
        accounts=keys.trust.accounts(keys.created, previous_signers=keys.previous_signers),
        storage=_STORAGE,
        encryption_key="$TIELINE_ENGINE_KEY",
        routes=[f"nats://{host}:6222" for host in hosts] if replicas > 1 else (),
    )
    files = {file: tls_config(CONFIG_FILE, mode, CERTIFICATES) for mode, file in TLS_CONFIG_FILES.items()}
    values = {CONFIG_FILE: config.text(), **files, ENCRYPTION_KEY: keys.encryption_key}
    return _secret(CONFIG_SECRET, namespace, values)


def servers_of(config: Object) -> int | None:
    """The number of servers that the Secret with their configuration is for; None where it cannot be read."""
    try:
        text = _text(_values(config), CONFIG_FILE)
    except InvalidTrustError:
        return None
    return (text.count(f".{ENGINE}-headless.") or 1) if text else None


def api_secret(keys: EngineKeys, namespace: str, actual: Object | None, now: datetime) -> Manifest | None:
    """The Secret with the API's credentials for the platform's account, and its signing key for those of environments.

    None where the one in the cluster is good for long enough.
    """
    if actual is not None and _is_usable(actual, keys.trust.api):
        annotations = actual["metadata"].get("annotations") or {}
        if seconds_to_renewal(annotations, keys.signer, now) > 0:
            return None
    expires = now + VALID
    credentials = keys.signer.credentials(_API_USER, at=now, expires=expires)
    made = _secret(API_SECRET, namespace, {ENGINE_CREDENTIALS: credentials, API_SIGNER: keys.trust.api.seed})
    made["metadata"]["annotations"] = credentials_annotations(keys.signer, expires)
    return made


def has_values(actual: Object | None, desired: Manifest) -> bool:
    """Whether a Secret has the values of another one."""
    return actual is not None and (actual.get("data") or {}).items() >= desired["data"].items()


def _is_usable(secret: Object, signer: KeyPair) -> bool:
    try:
        values = _values(secret)
        Credentials.parse(_text(values, ENGINE_CREDENTIALS))
    except (ValueError, InvalidTrustError):
        return False
    return _text(values, API_SIGNER) == signer.seed


def _values(secret: Object) -> Mapping[str, bytes]:
    try:
        return {
            name: base64.b64decode(value, validate=True) for name, value in (secret.get("data") or {}).items()
        }
    except binascii.Error:
        raise InvalidTrustError("A value of the Secret is not base64") from None


def _text(values: Mapping[str, bytes], name: str) -> str:
    return values.get(name, b"").decode("ascii", "replace").strip()


def _secret(name: str, namespace: str, values: Mapping[str, str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(_LABELS)},
        "type": "Opaque",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }
