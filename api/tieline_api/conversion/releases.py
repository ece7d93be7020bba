"""Releases of an environment between custom resource and REST."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tieline_api.conversion.projects import Versions, version_name
from tieline_api.schemas import releases as rest
from tieline_core.identity.ids import object_id, parse_id, parse_time
from tieline_core.resources.objects import ProjectVersionObject
from tieline_core.resources.releases import RolloutState


@dataclass(frozen=True, kw_only=True)
class EnvironmentReleases:
    """The releases of an environment, as its status has them."""

    items: Sequence[Mapping[str, Any]]
    """The newest first."""
    versions: Versions
    is_suspended: bool
    now: datetime
    runs: Sequence[tuple[int, int]] | None = None
    """Of each release: how many runs its version did, and how many of them failed. None where they are not known."""

    def place(self, number: int) -> int | None:
        """Where the release with a number is in ``items``."""
        return next((at for at, item in enumerate(self.items) if item["number"] == number), None)

    def values(self, at: int) -> dict[str, Any]:
        """The fields of the release at a place of ``items``."""
        item = self.items[at]
        served_from, served_until = item.get("servedFrom"), item.get("servedUntil")
        runs, failed = self.runs[at] if self.runs is not None else (None, None)
        return {
            "number": item["number"],
            "version": self.version(at),
            "deployed_at": item["deployedAt"],
            **{name: item.get(name) or None for name in ("by", "via", "message", "revision")},
            "outcome": self._outcome(at),
            "was_healthy": bool(item.get("healthy")),
            "failure": _failure(item),
            "served_from": served_from,
            "served_until": served_until,
            "served_seconds": self._seconds(served_from, served_until),
            "runs": runs,
            "failed_runs": failed,
        }

    def version(self, at: int) -> rest.ReleasedVersion:
        """The version of a release."""
        name, found = self.items[at]["version"], self.kept_version(at)
        if found is None:
            # Objects that REST makes are named after their ids.
            return rest.ReleasedVersion(id=parse_id(name), name=name)
        return rest.ReleasedVersion(
            id=object_id(found), name=version_name(found), created_by=found["spec"].get("createdBy") or None
        )

    def kept_version(self, at: int) -> ProjectVersionObject | None:
        """The ProjectVersion of a release; None where it is not kept, or has other files now."""
        found = self.versions(self.items[at]["version"])
        return found if found and found["spec"]["digest"] == self.items[at].get("digest") else None

    def _seconds(self, start: str | None, end: str | None) -> int | None:
        if not start:
            return None
        until = parse_time(end) if end else self.now
        return max(int((until - parse_time(start)).total_seconds()), 0)

    def _outcome(self, at: int) -> rest.ReleaseOutcome:
        item = self.items[at]
        if item["rollout"] == RolloutState.FAILED:
            return rest.ReleaseOutcome.FAILED
        if item.get("reason"):
            return rest.ReleaseOutcome.CRASHED if item.get("servedFrom") else rest.ReleaseOutcome.FAILED
        if at > 0:
            later, earlier = self.items[at - 1]["version"], {one["version"] for one in self.items[at + 1 :]}
            is_back = later in earlier and later != item["version"]
            return rest.ReleaseOutcome.ROLLED_BACK if is_back else rest.ReleaseOutcome.REPLACED
        if self.is_suspended:
            return rest.ReleaseOutcome.SUSPENDED
        if item["rollout"] == RolloutState.PROGRESSING:
            return rest.ReleaseOutcome.PROGRESSING
        return rest.ReleaseOutcome.HEALTHY if item.get("healthy") else rest.ReleaseOutcome.SERVING


def _failure(item: Mapping[str, Any]) -> rest.ReleaseFailure | None:
    reason = item.get("reason")
    return rest.ReleaseFailure(reason=reason, message=item.get("failure") or reason) if reason else None
