import { useOrganisation } from "../app/organisation";
import { useGet } from "./queries";

export const SEVERITIES = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] as const;

export interface LogFilters {
  project: string;
  environment: string;
  severity?: string;
  search?: string;
  start?: string;
  end?: string;
  build?: boolean;
}

/** The newest lines that the filters choose; every two seconds anew while `live`. */
export function useLogs(filters: LogFilters, options: { live: boolean; first: number }) {
  const { id } = useOrganisation();
  return useGet("/projects/{project_id}/logs", {
    at: { project_id: filters.project },
    query: {
      project_env: filters.environment,
      severity: (filters.severity || undefined) as (typeof SEVERITIES)[number] | undefined,
      search: filters.search || undefined,
      start: filters.start || undefined,
      end: filters.end || undefined,
      build: filters.build || undefined,
      first: options.first,
    },
    enabled: Boolean(filters.environment),
    refetchInterval: options.live ? 2_000 : false,
    placeholderData: (before, query) => (query?.queryKey[1] === id ? before : undefined),
  });
}
