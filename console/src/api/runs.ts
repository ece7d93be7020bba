import type { Shown } from "../lib/changes";
import type { Schemas } from "./client";
import { POLLING_MS, useChange, useGet, usePages, usePolling } from "./queries";

export type Run = Schemas["Run"];
export type RunDetail = Schemas["RunDetail"];
export type RunAttempt = Schemas["RunAttempt"];
export type RunStep = Schemas["RunStep"];
export type RunStatus = Run["status"];

export const STATUSES: RunStatus[] = ["queued", "running", "waiting", "succeeded", "failed", "dead", "cancelled"];
export const KINDS: Run["kind"][] = ["webhook", "event", "schedule", "background", "call"];

/** The filters of the list, as they are in the URL. */
export const RUN_FILTERS = [
  "project",
  "environment",
  "status",
  "kind",
  "task",
  "user",
  "version",
  "key",
  "issue",
  "tag",
  "find",
  "search",
  "last",
  "start",
  "end",
] as const;
export type RunFilters = Record<(typeof RUN_FILTERS)[number], string>;

const RUN = "/projects/{project_id}/runs/{run_id}";
const RUNS_OF_PROJECT = "/projects/{project_id}/runs";
const PAGE = 50;
const RUNNING_MS = 5_000;
/** In a busy organisation, lists change with every run. */
const RUNS_SHOWN: Shown = { kinds: ["run"], spacingMs: 4_000 };

/** Several statuses: runs that the charts count as failed. */
export const FAILED = "failed,dead";

/** The filters as parameters of the API; what is empty is left out. */
export function asQuery(filters: Partial<RunFilters>) {
  const set = (value: string | undefined) => value || undefined;
  return {
    project_env: set(filters.environment),
    status: set(filters.status)?.split(/[,\n]/) as RunStatus[] | undefined,
    kind: set(filters.kind) as Run["kind"] | undefined,
    task: set(filters.task),
    user: set(filters.user),
    version: set(filters.version),
    key: set(filters.key),
    issue: set(filters.issue),
    tag: set(filters.tag)?.split("\n"),
    find: set(filters.find),
    search: set(filters.search),
    start: set(filters.start),
    end: set(filters.end),
  };
}

export function useRuns(
  filters: Partial<RunFilters>,
  options: { discarded?: boolean; replayed?: boolean; live?: boolean; first?: number; enabled?: boolean } = {},
) {
  const query = {
    ...asQuery(filters),
    discarded: options.discarded,
    replayed: options.replayed,
    first: options.first ?? PAGE,
  };
  const of = { query, shown: options.live === false ? undefined : RUNS_SHOWN };
  const all = usePages("/runs", { ...of, enabled: options.enabled !== false && !filters.project });
  const ofProject = usePages(RUNS_OF_PROJECT, { ...of, at: { project_id: filters.project } });
  return filters.project ? ofProject : all;
}

export function isOver(status: RunStatus): boolean {
  return status !== "queued" && status !== "running" && status !== "waiting";
}

export function useRun(project: string, run: string) {
  const ended = usePolling();
  const running = usePolling({ streaming: POLLING_MS, polling: RUNNING_MS });
  return useGet(RUN, {
    at: { project_id: project, run_id: run },
    shown: { kinds: ["run"], id: run, spacingMs: 1_000 },
    refetchInterval: ({ state }) => (state.data && isOver(state.data.status) ? ended : running),
  });
}

export function useTrace(project: string, trace: string | null | undefined) {
  return useGet("/projects/{project_id}/traces/{trace_id}", {
    at: { project_id: project, trace_id: trace ?? undefined },
    retry: 1,
    refetchInterval: RUNNING_MS,
  });
}

export type StepName = Schemas["RunStepName"];
export type RunAction =
  | { type: "replay"; payload?: unknown; fromStep?: StepName }
  | { type: "signal"; name: string; payload: unknown }
  | { type: "cancel" }
  | { type: "discard" };

export function useRunAction(project: string, run: string) {
  const at = { project_id: project, run_id: run };
  return useChange({
    change: async (send, action: RunAction): Promise<Run | undefined> => {
      switch (action.type) {
        case "replay":
          return send("post", "/projects/{project_id}/runs/{run_id}/replay", {
            at,
            body: action.fromStep
              ? { fromStep: action.fromStep }
              : action.payload === undefined
                ? undefined
                : { payload: action.payload },
          });
        case "signal":
          await send("post", "/projects/{project_id}/runs/{run_id}/signals/{name}", {
            at: { ...at, name: action.name },
            body: { payload: action.payload },
          });
          return undefined;
        case "cancel":
          await send("post", "/projects/{project_id}/runs/{run_id}/cancel", { at });
          return undefined;
        case "discard":
          await send("post", "/projects/{project_id}/runs/{run_id}/discard", { at });
          return undefined;
      }
    },
    unsure: [[RUN, { project_id: project }], ["/runs"], [RUNS_OF_PROJECT], ["/backlog"]],
  });
}

/** Runs of a project to act on, by filters or by their ids. */
export interface Selection {
  filters: Partial<RunFilters> & { project: string };
  ids?: string[];
}

/** Replays, cancels or discards all selected runs; with `dryRun` it only counts them. */
export function useManyRuns() {
  return useChange({
    change: async (
      send,
      {
        verb,
        selections,
        dryRun,
      }: { verb: "replay" | "cancel" | "discard"; selections: Selection[]; dryRun: boolean },
    ) => {
      const sum = { count: 0, skipped: 0, more: false };
      for (const { filters, ids } of selections) {
        const found = await send("post", `/projects/{project_id}/runs/${verb}`, {
          at: { project_id: filters.project },
          body: { ...asQuery(filters), ids, dryRun },
        });
        sum.count += found.count;
        sum.skipped += found.skipped;
        sum.more ||= found.more;
      }
      return sum;
    },
    unsure: [["/runs"], [RUNS_OF_PROJECT], ["/backlog"]],
  });
}

export type BacklogItem = Schemas["BacklogItem"];

/** What waits in the organisation, in groups by environment, task, key and status. */
export function useBacklog() {
  return useGet("/backlog", { query: { first: 500 }, shown: RUNS_SHOWN });
}
