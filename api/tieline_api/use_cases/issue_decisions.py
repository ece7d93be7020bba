"""Decisions about issues: resolved, muted, reopened, assigned."""

import logging
from collections.abc import Callable

from tieline_api import errors
from tieline_api.cluster.etags import matches
from tieline_api.conversion import runs as convert
from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.runs.issues import Decision, Issue, VersionAge
from tieline_api.schemas.issues import IssueUpdate
from tieline_api.state.documents import DocumentKey, DocumentLimits, DocumentScope, version_of
from tieline_core.engine.state_streams import StatePlace

logger = logging.getLogger("tieline.issues")

LIMITS = DocumentLimits(keys=2000, value_bytes=8 * 1024, forgets=True)
"""Of an environment. Beyond them, a new decision replaces the oldest one."""
_TRIES = 10


def new_decision(
    before: Decision, update: IssueUpdate, *, newest: str, newest_at: int, by: str, now: int
) -> Decision:
    """What is decided after ``before``. ``newest`` is the newest version, and when it was created. Raises ApiError."""
    _check(update, now)
    assignee = before.assignee if update.assignee is None else update.assignee
    match update.state:
        case None:
            return before.assigned(assignee)
        case "resolved":
            later = bool(update.next_version)
            return Decision(
                state="resolved",
                at=now,
                by=by,
                next_version=later,
                version=newest if later else "",
                version_at=newest_at if later else 0,
                assignee=assignee,
            )
        case "muted":
            until = convert.nanoseconds(update.muted_until) if update.muted_until else None
            return Decision(
                state="muted", at=now, by=by, until=until, reason=update.reason or "", assignee=assignee
            )
        case "open":
            return Decision(at=now, by=by, assignee=assignee)


def _check(update: IssueUpdate, now: int) -> None:
    """Raises ApiError 422 for what does not go together."""
    if update.state is None and update.assignee is None:
        raise errors.invalid("", "Send state or assignee")
    if update.next_version and update.state != "resolved":
        raise errors.invalid("nextVersion", "requires the state resolved")
    if update.state == "muted":
        if not update.reason:
            raise errors.invalid("reason", "is required to mute an issue")
        if update.muted_until and convert.nanoseconds(update.muted_until) <= now:
            raise errors.invalid("mutedUntil", "must be in the future")
        return
    for name, value in (("mutedUntil", update.muted_until), ("reason", update.reason)):
        if value:
            raise errors.invalid(name, "requires the state muted")


def newest_version(issue: Issue, serving: str, age: VersionAge) -> tuple[str, int]:
    """The newest of the versions that failed so and the one that serves, and when it was created."""
    found = [(age(one) or 0, one) for one in (*issue.versions, serving) if one]
    created, version = max(found, default=(0, ""))
    return version, created


async def decide(
    platform: Dependencies,
    organisation: str,
    issue: Issue,
    change: Callable[[Decision], Decision],
    *,
    if_match: str | None = None,
) -> tuple[Decision, int]:
    """Changes what is decided about an issue, in the engine, and waits a moment until this replica has it.

    Returns the decision and the number of its message. Raises ApiError: 409 where others keep changing it, 412 where
    ``if_match`` names another decision.
    """
    scope = DocumentScope(place=StatePlace.of_issues(organisation, issue.environment), bounds=LIMITS)
    key = scope.document(issue.id)
    for number in range(1, _TRIES + 1):
        expected, before = await _current(platform, key)
        if if_match is not None and not matches(if_match, expected or version_of(0)):
            raise errors.precondition_failed()
        decision = change(before)
        try:
            version = await platform.documents.put(key, decision.to_json(), anyway=False, expected=expected)
        except ApiError as error:
            if error.status != 409 or number == _TRIES:
                raise
        else:
            sequence = int(version, 16)
            await platform.runs.decided(organisation, sequence)
            return decision, sequence
    raise AssertionError("the last try returns or raises")


async def _current(platform: Dependencies, key: DocumentKey) -> tuple[str | None, Decision]:
    found = await platform.documents.get(key)
    if found is None:
        return None, Decision()
    try:
        return found.version, Decision.parse(found.text)
    except ValueError:
        logger.warning("Cannot read the decision about an issue, it is replaced")
        return found.version, Decision()
