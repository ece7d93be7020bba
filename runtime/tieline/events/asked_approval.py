"""What tests and `tieline approvals --local` see of approvals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tieline.events.wait_store import Outcome
from tieline_protocol.approvals import Answer, Approval, ApprovalState


@dataclass(frozen=True, kw_only=True)
class AskedApproval:
    """What a run has asked by ``ctx.approve``."""

    id: str
    run_id: str
    title: str
    details: Any
    """Known secrets are masked."""
    by: tuple[str, ...]
    form: Mapping[str, Any] | None
    other_than: str | None
    state: ApprovalState
    """``open``, ``approved``, ``rejected`` or ``timed_out``."""

    @classmethod
    def of(cls, approval: Approval, outcome: Outcome | None, now: float) -> "AskedApproval":
        """From what the queue keeps."""
        return cls(
            id=approval.id,
            run_id=approval.run,
            title=approval.title,
            details=approval.details,
            by=approval.by,
            form=approval.form,
            other_than=approval.other_than,
            state=_state(approval, outcome, now),
        )


def _state(approval: Approval, outcome: Outcome | None, now: float) -> ApprovalState:
    if outcome is None:
        return "open" if now < approval.until else "timed_out"
    if outcome.event is None:
        return "timed_out"
    return "approved" if Answer.decode(outcome.event.payload).approved else "rejected"
