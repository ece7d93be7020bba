"""The credentials of an environment's pods, and when they are renewed. Pure."""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta

from tieline_core.engine.trust import AccountSigner
from tieline_core.identity.ids import format_time, parse_time
from tieline_operator.apply.diff import contained
from tieline_operator.apply.plan import Manifest, Object
from tieline_operator.cache.transforms import FOREIGN_DATA
from tieline_operator.workload.inputs import Workload
from tieline_operator.workload.manifests import engine_secret
from tieline_protocol.event_streams import EventStreams

VALID = timedelta(days=30)
RENEWED_BEFORE = timedelta(days=10)
"""How long before their end credentials are renewed: pods get them with the kubelet's next sync."""
EXPIRES_ANNOTATION = "tieline.dev/expires"
SIGNER_ANNOTATION = "tieline.dev/engine-signer"
RIGHTS_ANNOTATION = "tieline.dev/engine-rights"
_RIGHTS = 16


def environment_secret(
    workload: Workload, signer: AccountSigner, actual: Object | None, now: datetime
) -> tuple[Manifest, float]:
    """The Secret with the credentials of an environment's pods, and the seconds until its next renewal.

    Its value is in no cache. So the manifest has no value where the Secret in the cluster is to stay as it is, and new
    credentials where anything about it is to change.
    """
    streams = EventStreams(workload.organisation_id, workload.environment_id)
    rights = _rights(streams, signer)
    if actual is not None and not actual.get(FOREIGN_DATA):
        annotations = actual["metadata"].get("annotations") or {}
        left = seconds_to_renewal(annotations, signer, now, rights=rights)
        kept = engine_secret(workload, {name: annotations.get(name, "") for name in _ANNOTATIONS})
        if left > 0 and contained(kept, actual):
            return kept, left
    expires = now + VALID
    annotations = credentials_annotations(signer, expires, rights=rights)
    credentials = signer.pod_credentials(streams, at=now, expires=expires)
    return engine_secret(workload, annotations, credentials), (VALID - RENEWED_BEFORE).total_seconds()


def credentials_annotations(signer: AccountSigner, expires: datetime, *, rights: str = "") -> dict[str, str]:
    """What tells later whether credentials must be renewed."""
    signed = {EXPIRES_ANNOTATION: format_time(expires), SIGNER_ANNOTATION: signer.signer.public_key}
    return {**signed, RIGHTS_ANNOTATION: rights} if rights else signed


def seconds_to_renewal(
    annotations: Mapping[str, str], signer: AccountSigner, now: datetime, *, rights: str = ""
) -> float:
    """Seconds until credentials with these annotations must be renewed: 0 where that is now."""
    if annotations.get(SIGNER_ANNOTATION) != signer.signer.public_key:
        return 0.0
    if annotations.get(RIGHTS_ANNOTATION, "") != rights:
        return 0.0
    try:
        expires = parse_time(annotations[EXPIRES_ANNOTATION])
    except (KeyError, ValueError):
        return 0.0
    return max(0.0, (expires - RENEWED_BEFORE - now).total_seconds())


def _rights(streams: EventStreams, signer: AccountSigner) -> str:
    """A hash of what pods may do: it differs for another account, and for releases that allow something else."""
    text = "\n".join(
        (signer.of_environment(streams).account, *streams.pods_publish(), "", *streams.pods_subscribe())
    )
    return hashlib.sha256(text.encode()).hexdigest()[:_RIGHTS]


_ANNOTATIONS = (EXPIRES_ANNOTATION, SIGNER_ANNOTATION, RIGHTS_ANNOTATION)
