"""Approvals: what runs ask people, and their answers."""

from tieline_api.auth.permissions import permission
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import approvals as rest
from tieline_api.use_cases import approval_answers
from tieline_api.views.approval_lookup import page_of_approvals, require_approval

APPROVAL = f"{ORGANISATION}/environments/{{environment_id}}/approvals/{{approval_id}}"

OPERATIONS = Operations("Approvals")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/approvals",
    id="listApprovals",
    summary="List approvals",
    permissions=permission("list", "projects"),
)
async def list_approvals(call: Call[rest.ApprovalsQuery, None]) -> Reply[rest.ApprovalPage]:
    """Returns what runs of the organisation ask people, newest first. A list has at most 1,000, of which each
    environment has a share; a warning says if there are more. Approvals are kept for 30 days after their timeout."""
    return await page_of_approvals(call)


@OPERATIONS.add(
    "GET",
    APPROVAL,
    id="getApproval",
    summary="Get an approval",
    permissions=permission("get", "projects"),
)
async def get_approval(call: Call[None, None]) -> Reply[rest.Approval]:
    """Returns an approval, with its answer if there is one."""
    _, found, shown = await require_approval(call)
    return Reply(body=await shown.approval(found))


@OPERATIONS.add(
    "POST",
    f"{APPROVAL}/answer",
    id="answerApproval",
    summary="Approve or reject",
    permissions=permission("get", "projects"),
    errors=(409,),
)
async def answer_approval(call: Call[None, rest.ApprovalAnswerCreate]) -> Reply[rest.Approval]:
    """Approves or rejects, and resumes the run. The first answer counts: after it, and after the timeout, the response
    is 409 and says who answered and when. It is 403 if the approval is for others."""
    found, shown = await approval_answers.answer(call)
    return Reply(body=await shown.approval(found))
