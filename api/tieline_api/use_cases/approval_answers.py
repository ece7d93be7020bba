"""Answering approvals: who may, what fits the form, and the first answer counts."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import orjson

from tieline_api import errors
from tieline_api.http.operation import Call
from tieline_api.runs.approvals import StoredApproval
from tieline_api.schemas import approvals as rest
from tieline_api.use_cases.waking import wake
from tieline_api.views.activation_lookup import verdict_or_429
from tieline_api.views.approval_lookup import ShownApprovals, require_approval
from tieline_protocol import approvals
from tieline_protocol.approvals import Answer, is_deeper
from tieline_protocol.event_streams import EventStreams

logger = logging.getLogger("tieline.approvals")

AnswerCall = Call[None, rest.ApprovalAnswerCreate]


async def answer(call: AnswerCall) -> tuple[StoredApproval, ShownApprovals]:
    """Answers the approval in the path. Raises ApiError: 403 for who may not, 409 where it has ended, 422."""
    environment, stored, shown = await require_approval(call)
    if why := await shown.refusal(stored):
        raise errors.forbidden(why)
    if (state := await shown.state(stored)) != "open":
        raise errors.conflict(_ended(stored, state))
    await _check(call, stored)
    given = Answer(
        approval=stored.approval.id,
        approved=call.body.approved,
        by=call.caller.username[: approvals.MAX_NAME],
        at=time.time(),
        name=call.caller.display_name[: approvals.MAX_NAME],
        comment=call.body.comment,
        values=call.body.values,
    )
    streams = EventStreams(call.organisation.id, environment.id)
    found = await call.platform.approvals.answer(streams, stored.approval, given)
    await wake(call.platform, streams)
    if found.answer != given:
        raise errors.conflict(_ended(found, await shown.state(found)))
    logger.info(
        "Approval %s",
        "approved" if given.approved else "rejected",
        extra={
            "approval": stored.approval.id,
            "run": stored.approval.run,
            "environment": environment.id,
            "organisation": call.organisation.id,
            "user": call.caller.username,
        },
    )
    return found, shown


def _ended(stored: StoredApproval, state: str) -> str:
    if stored.answer is None:
        return {
            "withdrawn": "The run has ended: nobody waits for the answer any more",
            "timed_out": "The approval has timed out: nobody answered in time",
        }[state]
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stored.answer.at))
    return f"{stored.answer.by} {state} it already, at {at}"


async def _check(call: AnswerCall, stored: StoredApproval) -> None:
    """Raises ApiError 422 where the values do not fit the form, and 429 where that cannot be checked now."""
    values = call.body.values
    if values is not None:
        _check_size(values)
    form = stored.approval.form
    # A rejection need not fill the form.
    if form is None or not call.body.approved:
        return
    verdict = await verdict_or_429(call, form, values or {})
    if verdict.problem is not None:
        raise errors.conflict(f"The approval's form cannot be used: {verdict.problem}")
    if verdict.errors:
        raise errors.invalid_fields(
            [
                errors.FieldError(f"values.{one.path}" if one.path else "values", one.message)
                for one in verdict.errors
            ]
        )


def _check_size(values: Mapping[str, Any]) -> None:
    if is_deeper(values):
        raise errors.invalid("values", f"nest deeper than {approvals.MAX_DEPTH} levels")
    try:
        size = len(orjson.dumps(values))
    except TypeError:
        raise errors.invalid("values", "have a number or a text that cannot be kept") from None
    if size > approvals.MAX_VALUES_BYTES:
        raise errors.invalid("values", f"have more than {approvals.MAX_VALUES_BYTES:,} bytes")
