"""What is known of how systems answer requests through connections, written as annotations of the Connections.

Few writes come of many reports: one when the state changes, and while it lasts one in five minutes for requests that
are refused, one in ten for those that succeed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import cast

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_common.bounded_dict import BoundedDict
from tieline_core.credentials.connection_state import LAST_SUCCESS, LAST_SUCCESS_OF, last_success
from tieline_core.credentials.refusals import (
    ANNOTATION,
    REFUSALS,
    REPORTER,
    Refusals,
    fingerprint,
    printable,
    refusals_of,
)
from tieline_core.identity.ids import format_time
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import CONNECTIONS
from tieline_core.resources.objects import ConnectionObject

_WRITE_EACH = timedelta(minutes=5)
_SUCCESS_EACH = timedelta(minutes=10)
# Between pods that are answered differently, the state changes no more often than this.
_TURN_EACH = timedelta(seconds=2)
_REMEMBERED = 10_000
_MOST = 1_000_000_000


class Verdict(StrEnum):
    """What an answer says about the credentials."""

    REFUSED = "refused"
    ACCEPTED = "accepted"
    """They are not refused, though the request did not succeed."""
    SUCCEEDED = "succeeded"


def verdict_of(status: int) -> Verdict:
    """What a status says that a pod reports.

    >>> verdict_of(401), verdict_of(404), verdict_of(204)
    (<Verdict.REFUSED: 'refused'>, <Verdict.ACCEPTED: 'accepted'>, <Verdict.SUCCEEDED: 'succeeded'>)
    """
    if status in REFUSALS:
        return Verdict.REFUSED
    return Verdict.SUCCEEDED if status < 400 else Verdict.ACCEPTED


@dataclass(frozen=True, kw_only=True)
class RequestOutcome:
    """How a system answered requests through a connection."""

    status: int
    verdict: Verdict
    count: int = 1
    """How many were answered so."""
    said: str = ""
    """The beginning of the last answer's body, without secrets."""
    of: str = ""
    """The fingerprint of the credentials that were used; empty where the sender does not know it."""

    @property
    def is_refused(self) -> bool:
        return self.verdict is Verdict.REFUSED


class OutcomeReports:
    """Keeps the annotations; one for a process."""

    def __init__(
        self, kube: Kube, cluster: ClusterCache, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._kube = kube
        self._cluster = cluster
        self._now = now
        self._unwritten: BoundedDict[str, int] = BoundedDict(_REMEMBERED)
        """Refused requests by the uid of the Connection, since the annotation was written."""
        self._written: BoundedDict[str, datetime] = BoundedDict(_REMEMBERED)

    async def answered(
        self, connection: ConnectionObject, outcome: RequestOutcome, *, at_once: bool = False
    ) -> ConnectionObject:
        """The Connection with what is known of it after ``outcome``. Raises KubeError.

        ``at_once``: a person waits for the state, so it may change right after it has changed.
        """
        used = outcome.of or fingerprint(connection)
        connection = self._newest(connection)
        if used != fingerprint(connection):
            return connection  # it says nothing of the credentials that the connection has now
        known, now = refusals_of(connection), self._now()
        refusals = self._after(connection, known, outcome, now, at_once=at_once)
        before = last_success(connection)
        is_news = outcome.verdict is Verdict.SUCCEEDED and (
            at_once or before is None or abs(now - before) >= _SUCCESS_EACH
        )
        if refusals == known and not is_news:
            return connection
        return await self._write(connection, refusals, now if is_news else None)

    def _newest(self, connection: ConnectionObject) -> ConnectionObject:
        """The Connection as it is now: it may have changed while the request was under way."""
        metadata = connection["metadata"]
        found = self._cluster.connections.get(metadata["namespace"], metadata["name"])
        return found if found is not None and found["metadata"]["uid"] == metadata["uid"] else connection

    def _after(
        self,
        connection: ConnectionObject,
        known: Refusals | None,
        outcome: RequestOutcome,
        now: datetime,
        *,
        at_once: bool,
    ) -> Refusals | None:
        """The refusals that are known after a report: the same where nothing is to be written."""
        uid = connection["metadata"]["uid"]
        stands = known is not None and known.accepted is None
        if outcome.is_refused:
            self._unwritten[uid] = min(self._unwritten.get(uid, 0) + outcome.count, _MOST)
        said = printable(outcome.said)
        if known is not None and stands and outcome.is_refused:
            if not at_once and abs(now - known.last) < _WRITE_EACH:
                return known
            total = min(known.count + self._unwritten[uid], _MOST)
            return replace(known, status=outcome.status, count=total, last=now, said=said or known.said)
        if stands is outcome.is_refused or (not at_once and self._has_turned(uid, now)):
            return known
        if known is not None and stands:
            return replace(known, accepted=now)
        return Refusals(
            status=outcome.status,
            count=self._unwritten[uid],
            since=now,
            last=now,
            said=said,
            of=fingerprint(connection),
        )

    def _has_turned(self, uid: str, now: datetime) -> bool:
        """Whether the state has changed a moment ago."""
        written = self._written.get(uid)
        return written is not None and written + _TURN_EACH > now

    async def _write(
        self, connection: ConnectionObject, refusals: Refusals | None, success: datetime | None
    ) -> ConnectionObject:
        metadata = connection["metadata"]
        kept = metadata.get("annotations") or {}
        annotations = {name: kept[name] for name in (LAST_SUCCESS, LAST_SUCCESS_OF) if name in kept}
        if refusals is not None:
            annotations[ANNOTATION] = refusals.to_annotation()
        if success is not None:
            annotations |= {LAST_SUCCESS: format_time(success), LAST_SUCCESS_OF: fingerprint(connection)}
        manifest = {
            "apiVersion": CONNECTIONS.api_version,
            "kind": CONNECTIONS.kind,
            "metadata": {
                **{key: metadata[key] for key in ("name", "namespace", "uid")},
                "annotations": annotations,
            },
        }
        if refusals != refusals_of(connection):
            self._written[metadata["uid"]] = self._now()
        applied = await self._kube.apply(CONNECTIONS, manifest, field_manager=REPORTER, force=True)
        self._unwritten.pop(metadata["uid"], None)
        self._cluster.connections.observe(applied.object)
        return cast("ConnectionObject", applied.object)
