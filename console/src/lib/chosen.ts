import type { ProjectItem } from "../api/projects";
import { environmentOf } from "./attention";

/** Runs that one request may name. */
export const MOST_CHOSEN = 100;

export interface ChosenRun {
  id: string;
  environmentId: string;
}

/** Runs of one environment, as a request selects them. */
export interface ChosenGroup {
  project: string;
  environment: string;
  ids: string[];
}

/** Chosen runs by their environment: two environments may have runs with the same id. Runs of deleted ones are left out. */
export function groupsOf(runs: Iterable<ChosenRun>, projects: ProjectItem[]): ChosenGroup[] {
  const groups = new Map<string, ChosenGroup>();
  for (const run of runs) {
    const place = environmentOf(projects, run.environmentId);
    if (!place) continue;
    const group = groups.get(run.environmentId);
    if (group) group.ids.push(run.id);
    else {
      groups.set(run.environmentId, {
        project: place.project.id,
        environment: place.environment.name,
        ids: [run.id],
      });
    }
  }
  return [...groups.values()];
}
