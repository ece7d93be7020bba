import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api, type Schemas } from "./client";

export type Run = Schemas["Run"];
export type RunDetail = Schemas["RunDetail"];
export type RunAttempt = Schemas["RunAttempt"];
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
  "search",
  "start",
  "end",
] as const;
export type RunFilters = Record<(typeof RUN_FILTERS)[number], string>;

const PAGE = 50;
const LIVE_MS = 4_000;

/** The filters as parameters of the API; what is empty is left out. */
export function asQuery(filters: Partial<RunFilters>) {
  const set = (value: string | undefined) => value || undefined;
  return {
    project_env: set(filters.environment),
    status: set(filters.status) as RunStatus | undefined,
    kind: set(filters.kind) as Run["kind"] | undefined,
    task: set(filters.task),
    user: set(filters.user),
    version: set(filters.version),
    key: set(filters.key),
    search: set(filters.search),
    start: set(filters.start),
    end: set(filters.end),
  };
}

export function useRuns(
  filters: Partial<RunFilters>,
  options: { discarded?: boolean; replayed?: boolean; live?: boolean; first?: number } = {},
) {
  const { id } = useOrganisation();
  return useInfiniteQuery({
    queryKey: ["runs", id, filters, options.discarded, options.replayed, options.first],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => {
      const chosen = {
        ...asQuery(filters),
        discarded: options.discarded,
        replayed: options.replayed,
        first: options.first ?? PAGE,
        after: pageParam,
      };
      return answer(
        filters.project
          ? api.GET("/api/v2/o/{organisation_id}/projects/{project_id}/runs", {
              params: { path: { organisation_id: id, project_id: filters.project }, query: chosen },
            })
          : api.GET("/api/v2/o/{organisation_id}/runs", {
              params: { path: { organisation_id: id }, query: chosen },
            }),
      );
    },
    getNextPageParam: (page) => page.next ?? undefined,
    // With many pages open, reading them all again every few seconds would cost more than it tells.
    refetchInterval: (found) =>
      options.live !== false && (found.state.data?.pages.length ?? 0) <= 2 ? LIVE_MS : false,
  });
}

export function isOver(status: RunStatus): boolean {
  return status !== "queued" && status !== "running" && status !== "waiting";
}

export function useRun(project: string, run: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["run", id, project, run],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/projects/{project_id}/runs/{run_id}", {
          params: { path: { organisation_id: id, project_id: project, run_id: run } },
        }),
      ),
    refetchInterval: (found) => (found.state.data && isOver(found.state.data.status) ? 15_000 : 2_000),
  });
}

export function useTrace(project: string, trace: string | null | undefined) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["trace", id, project, trace],
    enabled: Boolean(trace),
    retry: 1,
    refetchInterval: 5_000,
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/projects/{project_id}/traces/{trace_id}", {
          params: { path: { organisation_id: id, project_id: project, trace_id: trace ?? "" } },
        }),
      ),
  });
}

export type RunAction = { type: "replay"; payload?: unknown } | { type: "cancel" } | { type: "discard" };

export function useRunAction(project: string, run: string) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  const params = { path: { organisation_id: id, project_id: project, run_id: run } };
  return useMutation({
    mutationFn: async (action: RunAction): Promise<Run | undefined> => {
      if (action.type === "replay") {
        return answer(
          api.POST("/api/v2/o/{organisation_id}/projects/{project_id}/runs/{run_id}/replay", {
            params,
            body: action.payload === undefined ? undefined : { payload: action.payload },
          }),
        );
      }
      if (action.type === "cancel") {
        await answer(
          api.POST("/api/v2/o/{organisation_id}/projects/{project_id}/runs/{run_id}/cancel", { params }),
        );
      } else {
        await answer(
          api.POST("/api/v2/o/{organisation_id}/projects/{project_id}/runs/{run_id}/discard", { params }),
        );
      }
      return undefined;
    },
    onSettled: () =>
      Promise.all([
        client.invalidateQueries({ queryKey: ["run", id, project] }),
        client.invalidateQueries({ queryKey: ["runs", id] }),
      ]),
  });
}

/** Replays, cancels or discards all runs that the filters choose; with `dryRun` it only counts them. */
export function useManyRuns(project: string) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({
      verb,
      filters,
      dryRun,
    }: {
      verb: "replay" | "cancel" | "discard";
      filters: Partial<RunFilters>;
      dryRun: boolean;
    }) => {
      const options = {
        params: { path: { organisation_id: id, project_id: project } },
        body: { ...asQuery(filters), dryRun },
      };
      switch (verb) {
        case "replay":
          return answer(api.POST("/api/v2/o/{organisation_id}/projects/{project_id}/runs/replay", options));
        case "cancel":
          return answer(api.POST("/api/v2/o/{organisation_id}/projects/{project_id}/runs/cancel", options));
        case "discard":
          return answer(api.POST("/api/v2/o/{organisation_id}/projects/{project_id}/runs/discard", options));
      }
    },
    onSuccess: (_, { dryRun }) => (dryRun ? undefined : client.invalidateQueries({ queryKey: ["runs", id] })),
  });
}

export type BacklogItem = Schemas["BacklogItem"];

/** What waits in the organisation, in groups by environment, task, key and status. */
export function useBacklog() {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["runs", id, "backlog"],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/backlog", {
          params: { path: { organisation_id: id }, query: { first: 500 } },
        }),
      ),
    refetchInterval: LIVE_MS,
  });
}
