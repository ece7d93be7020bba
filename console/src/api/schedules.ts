import { keepPreviousData } from "@tanstack/react-query";
import type { Schemas } from "./client";
import { POLLING_MS, useChange, useGet, usePages } from "./queries";

export type Schedule = Schemas["OrganisationScheduler"];
export type LateSchedule = Schemas["LateScheduler"];

const SCHEDULES = "/schedulers";
const SCHEDULE = "/environments/{environment_id}/schedulers/{scheduler_id}";
const PAGE = 100;

/** Schedules of all projects that did not run when they were due. */
export function useLateSchedules() {
  // No change announces that a schedule becomes late.
  return useGet("/schedulers/late", { shown: { kinds: ["project"] }, refetchInterval: POLLING_MS });
}

/** Schedules of all projects, or of one, the next one that is due first. */
export function useSchedules({
  search,
  project,
  environment,
}: {
  search: string;
  project: string;
  environment: string;
}) {
  return usePages(SCHEDULES, {
    query: {
      first: PAGE,
      search: search || undefined,
      project_id: project || undefined,
      project_env: environment || undefined,
    },
    placeholderData: keepPreviousData,
    shown: { kinds: ["project", "run"] },
    // No change announces that a time passes, and the API's reports of pods are some seconds old.
    everyMs: POLLING_MS,
  });
}

export type ScheduleAction = { type: "run"; user?: string } | { type: "pause"; paused: boolean };

export function useScheduleAction(schedule: Schedule) {
  const at = { environment_id: schedule.environment_id, scheduler_id: schedule.id };
  return useChange({
    change: async (send, action: ScheduleAction): Promise<void> => {
      if (action.type === "run") {
        await send("post", SCHEDULE, { at, body: action.user ? { user: action.user } : {} });
      } else {
        await send("put", SCHEDULE, { at, body: { paused: action.paused } });
      }
    },
    unsure: [[SCHEDULES]],
  });
}
