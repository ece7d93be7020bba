"""The Secrets and ConfigMaps of TLS: what they hold, and whether they can be used. Pure."""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime

from tieline_core.identity.ids import format_time, parse_time
from tieline_core.tls import AUTHORITIES, AUTHORITIES_CONFIG_MAP, CERTIFICATE, KEY
from tieline_operator.apply.plan import Manifest, Object
from tieline_operator.tls.authority import CURRENT, Authority
from tieline_operator.tls.certificates import InvalidCertificateError, Issued

AUTHORITY_SECRET = "tieline-ca"  # noqa: S105  (a name)
API_SECRET = "tieline-api-tls"  # noqa: S105  (a name)
ENGINE_SECRET = "tieline-engine-tls"  # noqa: S105  (a name)
REPLACE_ANNOTATION = "tieline.dev/replace-before"
"""On the Secret of the authority: an authority that was made before this time is replaced."""
SINCE_ANNOTATION = "tieline.dev/signs-since"
_LABELS = {"app.kubernetes.io/part-of": "tieline", "app.kubernetes.io/managed-by": "tieline-operator"}


def server_names(service: str, namespace: str) -> tuple[str, ...]:
    """The DNS names of a Service of the platform."""
    short = f"{service}.{namespace}"
    return (f"{short}.svc", f"{short}.svc.cluster.local", short)


def read_authority(secret: Object) -> tuple[Authority | None, datetime | None]:
    """The authority in a Secret, which may have none yet, and the time before which one is replaced.

    Raises InvalidCertificateError.
    """
    annotations = secret["metadata"].get("annotations") or {}
    values = _values(secret)
    if CURRENT not in values:
        return None, None
    authority = Authority.from_values(values, _time(annotations, SINCE_ANNOTATION))
    return authority, _time(annotations, REPLACE_ANNOTATION)


def authority_secret(authority: Authority, namespace: str) -> Manifest:
    """The Secret with the authority's keys."""
    made = _secret(AUTHORITY_SECRET, namespace, authority.to_values(), "Opaque")
    made["metadata"]["annotations"] = {SINCE_ANNOTATION: format_time(authority.since)}
    return made


def read_certificate(secret: Object | None) -> Issued | None:
    """The certificate in a server's Secret; None where there is none that can be used."""
    if secret is None:
        return None
    try:
        values = _values(secret)
        return Issued(values.get(CERTIFICATE, ""), values.get(KEY, ""))
    except InvalidCertificateError:
        return None


def read_authorities(secret: Object | None) -> str:
    """The authorities beside a certificate that others made, in PEM; "" where there are none."""
    return _values(secret).get(AUTHORITIES, "") if secret is not None else ""


def certificate_secret(name: str, namespace: str, issued: Issued, trusted: str) -> Manifest:
    """A server's Secret, with the authorities that its own clients trust."""
    values = {CERTIFICATE: issued.certificate, KEY: issued.key, AUTHORITIES: trusted}
    return _secret(name, namespace, values, "kubernetes.io/tls")


def authorities_config_map(namespace: str, trusted: str) -> Manifest:
    """What an organisation's pods trust."""
    metadata = {"name": AUTHORITIES_CONFIG_MAP, "namespace": namespace, "labels": dict(_LABELS)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {AUTHORITIES: trusted}}


def _time(annotations: Mapping[str, str], name: str) -> datetime | None:
    try:
        return parse_time(annotations[name])
    except (KeyError, ValueError):
        return None


def _values(secret: Object) -> Mapping[str, str]:
    try:
        return {
            name: base64.b64decode(value, validate=True).decode("ascii", "replace")
            for name, value in (secret.get("data") or {}).items()
        }
    except binascii.Error:
        raise InvalidCertificateError("A value of the Secret is not base64") from None


def _secret(name: str, namespace: str, values: Mapping[str, str], kind: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(_LABELS)},
        "type": kind,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }
