import type { NotificationEvent } from "../api/notifications";

/** What can be notified about, in words: incidents start and end; issues, approvals and changes are notified once. */
export const INCIDENTS: [NotificationEvent, string][] = [
  ["run_dead", "runs become dead letters"],
  ["failure_rate", "runs fail too often"],
  ["authorisation_needed", "a connection needs authorisation"],
  ["deploy_failed", "a deploy failed"],
  ["environment_error", "no version serves"],
  ["schedule_missed", "a schedule missed its time"],
];
export const CHANGES: [NotificationEvent, string][] = [
  ["connection.created", "a connection was created"],
  ["connection.failed", "a connection failed"],
  ["connection.needs_authorisation", "a user's connection needs authorisation"],
  ["connection.deleted", "a connection was deleted"],
  ["activation.created", "a user was activated"],
  ["activation.deleted", "an activation was deleted"],
];

export const ISSUES: [NotificationEvent, string][] = [
  ["issue_opened", "runs fail in a new way"],
  ["issue_regressed", "a resolved issue is back"],
];
export const APPROVALS: [NotificationEvent, string][] = [["approval_requested", "a run asks people"]];
/** What is notified about unless events are named. */
export const FAILURES = [...INCIDENTS, ...ISSUES];

const WORDS = new Map([...FAILURES, ...APPROVALS, ...CHANGES]);

/** Events in words: "all failures", or their names. */
export function eventsInWords(events: NotificationEvent[]): string {
  const failures = FAILURES.map(([event]) => event);
  const all = failures.every((each) => events.includes(each));
  const others = all ? events.filter((each) => !failures.includes(each)) : events;
  return [...(all ? ["all failures"] : []), ...others.map((each) => WORDS.get(each) ?? each)].join(", ");
}

/** A new signing secret for webhooks: 32 random bytes. */
export function newSigningSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;
}
