import { valuesOf } from "../lib/several";
import type { Schemas } from "./client";
import { useChange, useGet, usePages } from "./queries";

export type Issue = Schemas["Issue"];
export type IssueDetail = Schemas["IssueDetail"];
export type IssueState = Issue["state"];

export const STATES: IssueState[] = ["open", "regressed", "resolved", "muted"];
/** Those that need attention. */
export const LEFT: IssueState[] = ["open", "regressed"];
export const ALL_STATES = "all";

/** The filters of the list, as they are in the URL. */
export const ISSUE_FILTERS = [
  "project",
  "environment",
  "state",
  "task",
  "system",
  "assignee",
  "last",
  "since",
  "until",
] as const;
export type IssueFilters = Record<(typeof ISSUE_FILTERS)[number], string>;

const ISSUES = "/issues";
const OF_PROJECT = "/projects/{project_id}/issues";
const ISSUE = "/projects/{project_id}/issues/{issue_id}";
const PAGE = 50;
/** Counts of runs change with each run. */
const SHOWN = { kinds: ["issue", "run"] } as const;

/** The states that a filter shows, as check boxes have them. */
export function stateValues(filter: string): string {
  return filter === ALL_STATES ? STATES.join(",") : filter || LEFT.join(",");
}

/** The filter of these states: those that need attention are the default. */
export function stateFilter(values: string): string {
  if (values === LEFT.join(",")) return "";
  return values === STATES.join(",") ? ALL_STATES : values;
}

function statesOf(state: string | undefined): IssueState[] | undefined {
  if (state === ALL_STATES) return undefined;
  return state ? (valuesOf(state) as IssueState[]) : LEFT;
}

export function useIssues(filters: Partial<IssueFilters>, { first = PAGE }: { first?: number } = {}) {
  const set = (value: string | undefined) => value || undefined;
  const query = {
    project_env: set(filters.environment),
    state: statesOf(filters.state),
    task: set(filters.task),
    system: set(filters.system),
    assignee: set(filters.assignee),
    since: set(filters.since),
    until: set(filters.until),
    first,
  };
  const of = { query, shown: SHOWN };
  const all = usePages(ISSUES, { ...of, enabled: !filters.project });
  const ofProject = usePages(OF_PROJECT, { ...of, at: { project_id: filters.project } });
  return filters.project ? ofProject : all;
}

export function useIssue(project: string, issue: string) {
  return useGet(ISSUE, { at: { project_id: project, issue_id: issue }, shown: SHOWN });
}

export type IssueChange = Schemas["IssueUpdate"];

export function useIssueChange(project: string, issue: string) {
  const at = { project_id: project, issue_id: issue };
  return useChange({
    change: (send, body: IssueChange) => send("patch", ISSUE, { at, body }),
    unsure: [[ISSUE, at], [ISSUES], [OF_PROJECT]],
  });
}

/** Replays the runs of an issue, or those that were queued from a time on; with `dryRun` it only counts them. */
export function useIssueReplay(project: string, issue: string) {
  const at = { project_id: project, issue_id: issue };
  return useChange({
    change: (send, body: { dryRun: boolean; start?: string }) =>
      send("post", "/projects/{project_id}/issues/{issue_id}/replay", { at, body }),
    stale: [[ISSUE, at], ["/runs"], ["/projects/{project_id}/runs"], ["/backlog"]],
  });
}
