"""The releases of an environment: each deploy, and what became of it. Pure.

They are computed from those of before, like the rest of the status: a deploy counts as soon as the operator sees it,
however it came. Two deploys between two visits are one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tieline_core.identity.display_names import cleaned
from tieline_core.resources.releases import MAX_RELEASE_TEXT, MAX_RELEASES, DeployNote, Release, RolloutState
from tieline_operator.workload.pods import Failure

_MORE = "…".encode()


@dataclass(frozen=True, kw_only=True)
class Deploy:
    """What is known of the deploy that an environment has now."""

    version: str
    digest: str = ""
    note: DeployNote | None = None
    """Counts only if it is about this version, and no release has it yet."""
    via: str = ""
    message: str = ""
    revision: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What has become of it."""

    rollout: RolloutState | None
    """None while the environment is suspended."""
    serving: str | None
    """The version that serves."""
    is_suspended: bool = False
    is_healthy: bool = False
    failure: Failure | None = None
    """Why the version does not serve, where that is known."""


def next_releases(
    before: Sequence[Release], deploy: Deploy | None, outcome: Outcome, now: datetime
) -> list[Release]:
    """The releases, the newest first. ``deploy`` is None while no version is chosen."""
    now = now.replace(microsecond=0)
    releases = list(before)
    if deploy and _is_another(deploy, releases):
        releases.insert(0, _new(deploy, releases, now))
    if deploy and releases and releases[0].version == deploy.version:
        releases[0] = _with_outcome(releases[0], deploy, outcome)
    return _with_times(releases[:MAX_RELEASES], outcome, now)


def _is_another(deploy: Deploy, releases: Sequence[Release]) -> bool:
    return not releases or releases[0].version != deploy.version or _fresh_note(deploy, releases) is not None


def _fresh_note(deploy: Deploy, releases: Sequence[Release]) -> DeployNote | None:
    """The note of this deploy. One of an earlier deploy of the same version says nothing about a later one."""
    note = deploy.note
    if note is None or note.version != deploy.version or any(note.id == one.note for one in releases):
        return None
    return note


def _new(deploy: Deploy, releases: Sequence[Release], now: datetime) -> Release:
    note = _fresh_note(deploy, releases)
    # What annotations and labels say is about what Git or kubectl applies.
    return Release(
        number=releases[0].number + 1 if releases else 1,
        version=deploy.version,
        digest=deploy.digest or None,
        deployed_at=now,
        # One that is left over counts as seen, however many releases follow: it never speaks for a later deploy.
        note=deploy.note.id if deploy.note else "",
        by=_short(note.by) if note else "",
        via="" if note else _short(deploy.via),
        message=_short(note.message if note else deploy.message),
        revision=_short(note.revision if note else deploy.revision),
        rollout=RolloutState.PROGRESSING,
    )


def _with_outcome(release: Release, deploy: Deploy, outcome: Outcome) -> Release:
    update: dict[str, object] = {"healthy": release.healthy or outcome.is_healthy}
    if deploy.digest:
        update["digest"] = deploy.digest
    rollout = release.rollout
    if outcome.rollout is not None and rollout is not RolloutState.COMPLETE:
        update["rollout"] = rollout = outcome.rollout
    if rollout is RolloutState.COMPLETE and outcome.serving == release.version:
        # Pods of other settings may not start: the version serves all the same.
        update["reason"] = update["failure"] = ""
    elif outcome.failure is not None:
        update["reason"] = outcome.failure.reason
        update["failure"] = _short(outcome.failure.message)
    return release.model_copy(update=update)


def _with_times(releases: Sequence[Release], outcome: Outcome, now: datetime) -> list[Release]:
    """Of releases of the version that serves, the newest one does."""
    result, found = [], False
    for at, release in enumerate(releases):
        serves = not found and release.version == outcome.serving
        found = found or serves
        update: dict[str, object] = {}
        if serves:
            update = {"served_from": release.served_from or now, "served_until": None}
        elif release.served_from and not release.served_until and (at > 0 or outcome.is_suspended):
            # A deployed version whose pods are being started again is not replaced.
            update = {"served_until": now}
        result.append(release.model_copy(update=update))
    return result


def _short(text: str) -> str:
    """The first line of a text as people can read it, cut to the bytes that a release keeps: Kubernetes stores all
    releases of a project in one object of at most 1.5 MiB."""
    line = cleaned(text.strip().partition("\n")[0])
    content = line.encode("utf-8", "replace")
    if len(content) <= MAX_RELEASE_TEXT:
        return line
    return content[: MAX_RELEASE_TEXT - len(_MORE)].decode("utf-8", "ignore").rstrip() + _MORE.decode()
