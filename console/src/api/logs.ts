import { useQuery } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api } from "./client";

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
  return useQuery({
    queryKey: ["logs", id, filters, options.first],
    enabled: Boolean(filters.project && filters.environment),
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/projects/{project_id}/logs", {
          params: {
            path: { organisation_id: id, project_id: filters.project },
            query: {
              project_env: filters.environment,
              severity: (filters.severity || undefined) as (typeof SEVERITIES)[number] | undefined,
              search: filters.search || undefined,
              start: filters.start || undefined,
              end: filters.end || undefined,
              build: filters.build || undefined,
              first: options.first,
            },
          },
        }),
      ),
    refetchInterval: options.live ? 2_000 : false,
    placeholderData: (before, query) => (query?.queryKey[1] === id ? before : undefined),
  });
}
