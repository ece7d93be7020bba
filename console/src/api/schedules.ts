import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api, call, type Schemas } from "./client";
import type { RunStatus } from "./runs";

/** A schedule as `GET …/environments/{id}/schedulers` answers it. */
export interface Schedule {
  id: string;
  name: string;
  schedule: string;
  timezone: string;
  activations: string;
  paused: boolean;
  nextRun?: string;
  lastRun?: string;
  lastRunId?: string;
  lastRunStatus?: RunStatus;
  missed?: string;
}

function pathOf(organisation: string, environment: string, ...rest: string[]): string {
  return [
    "/api/v2/o",
    organisation,
    "environments",
    environment,
    "schedulers",
    ...rest.map(encodeURIComponent),
  ].join("/");
}

export type LateSchedule = Schemas["LateScheduler"];

/** Schedules of all projects that did not run when they were due. */
export function useLateSchedules() {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["late-schedules", id],
    queryFn: () =>
      answer(api.GET("/api/v2/o/{organisation_id}/schedulers/late", { params: { path: { organisation_id: id } } })),
    refetchInterval: 15_000,
  });
}

export function useSchedules(environment: string | undefined) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["schedules", id, environment],
    enabled: environment !== undefined,
    queryFn: () => call<Schedule[]>("GET", pathOf(id, environment ?? "")),
    refetchInterval: 5_000,
  });
}

export type ScheduleAction = { type: "run"; user?: string } | { type: "pause"; paused: boolean };

export function useScheduleAction(environment: string, schedule: string) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: (action: ScheduleAction) =>
      action.type === "run"
        ? call("POST", pathOf(id, environment, schedule), action.user ? { user: action.user } : {})
        : call("PUT", pathOf(id, environment, schedule), { paused: action.paused }),
    onSettled: () => client.invalidateQueries({ queryKey: ["schedules", id, environment] }),
  });
}
