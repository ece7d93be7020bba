import type { AuditChange, AuditEntry } from "../api/audit";
import { visible } from "./text";

const MOST_FIELDS = 6;
const PAGES: Record<string, string> = {
  projects: "projects",
  connections: "connections",
  systems: "systems",
  connectors: "connectors",
  endusers: "users",
};

/** The page of what a record is about, by the folder of its path; undefined where there is none. */
export function pageOf(kind: string, object: string): string | undefined {
  return object ? PAGES[kind] : undefined;
}

/** Who it was: without credentials, where the request came from. */
export function whoOf(entry: Pick<AuditEntry, "subject" | "caller" | "address">): string {
  if (!entry.subject) return `anonymous, from ${entry.address || "an unknown address"}`;
  return entry.caller ? visible(entry.subject) : `on behalf of ${visible(entry.subject)}`;
}

/** What came of it, with the reason. */
export function outcomeOf(entry: Pick<AuditEntry, "outcome" | "status" | "code">): string {
  if (entry.outcome === "allowed") return entry.outcome;
  return `${entry.outcome}: ${visible(entry.code) || entry.status}`;
}

/** The fields of a change, with values where they are shown. */
export function fieldsOf(change: AuditChange): string {
  const fields = change.fields ?? [];
  const shown = fields.slice(0, MOST_FIELDS).map((each) => {
    if (each.after !== undefined && each.after !== null) return `${each.name} = ${visible(String(each.after))}`;
    return each.name;
  });
  const more = fields.length - MOST_FIELDS;
  return [...shown, ...(more > 0 ? [`${more} more`] : [])].join(", ");
}
