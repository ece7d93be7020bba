import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { call } from "./client";
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
