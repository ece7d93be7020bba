import type { Schemas } from "./client";
import { useChange, useGet, usePages } from "./queries";

export type Approval = Schemas["Approval"];
export type ApprovalState = Approval["state"];

const APPROVALS = "/approvals";
const APPROVAL = "/environments/{environment_id}/approvals/{approval_id}";
const ANSWER = "/environments/{environment_id}/approvals/{approval_id}/answer";
const PAGE = 50;
const SHOWN = { kinds: ["run"] } as const;

/** Approvals that are open, or those that are not. */
export function useApprovals(open: boolean) {
  const state: ApprovalState[] = open ? ["open"] : ["approved", "rejected", "timed_out", "withdrawn"];
  return usePages(APPROVALS, { query: { state, first: PAGE }, shown: SHOWN });
}

export function useApproval(environment: string, approval: string) {
  return useGet(APPROVAL, { at: { environment_id: environment, approval_id: approval }, shown: SHOWN });
}

export type ApprovalAnswer = Schemas["ApprovalAnswerCreate"];

export function useApprovalAnswer(approval: Approval) {
  const at = { environment_id: approval.environmentId, approval_id: approval.id };
  return useChange({
    change: (send, body: ApprovalAnswer) => send("post", ANSWER, { at, body }),
    unsure: [[APPROVALS], [APPROVAL]],
  });
}
