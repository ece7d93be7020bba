import type { Schemas } from "./client";
import { useGet } from "./queries";

export type Release = Schemas["Release"];
export type ReleaseDetail = Schemas["ReleaseDetail"];

const RELEASES = "/projects/{project_id}/environments/{environment_id}/releases";
/** Each release counts the runs that failed since. */
const SHOWN = { kinds: ["project", "version", "run"] } as const;
const MOST = 20;

/** The last deploys to an environment, the newest first. */
export function useReleases(project: string, environment: string | undefined) {
  return useGet(RELEASES, {
    at: { project_id: project, environment_id: environment },
    query: { first: MOST },
    shown: SHOWN,
  });
}

export function useRelease(project: string, environment: string | undefined, release: string) {
  return useGet(`${RELEASES}/{release}`, {
    at: { project_id: project, environment_id: environment, release },
    shown: SHOWN,
  });
}
