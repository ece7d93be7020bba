import type { Schemas } from "./client";
import { usePages } from "./queries";

export type AuditEntry = Schemas["AuditEntry"];
export type AuditChange = Schemas["AuditChange"];

/** The filters of the list, as they are in the URL. */
export const AUDIT_FILTERS = ["log", "outcome", "subject", "kind", "id"] as const;
export type AuditFilters = Record<(typeof AUDIT_FILTERS)[number], string>;

export const ACCESS = "access";
export const OUTCOMES = ["allowed", "refused", "failed"] as const;
const PAGE = 50;

/** Audit records, newest first. A page may be empty because of its filters, and still lead to others. */
export function useAudit(filters: AuditFilters, { enabled }: { enabled: boolean }) {
  const outcome = OUTCOMES.find((each) => each === filters.outcome);
  return usePages("/audit", {
    enabled,
    query: {
      log: filters.log === ACCESS ? ACCESS : "changes",
      outcome,
      subject: filters.subject || undefined,
      kind: filters.kind || undefined,
      id: filters.id || undefined,
      first: PAGE,
    },
  });
}
