import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { ApiError, answer, api, call, type Schemas } from "./client";

export type Project = Schemas["Project"];
export type ProjectItem = Schemas["ProjectItem"];
export type Environment = Schemas["Environment"];
export type Version = Schemas["Version"];
export type Summary = Schemas["MetricsSummary"];

const LIVE_MS = 5_000;

export function useProjects() {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["projects", id],
    queryFn: () =>
      answer(api.GET("/api/v2/o/{organisation_id}/projects", { params: { path: { organisation_id: id } } })),
    refetchInterval: LIVE_MS,
    select: (found) => found.projects,
  });
}

export function useProject(project: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["project", id, project],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/projects/{project_id}", {
          params: { path: { organisation_id: id, project_id: project } },
        }),
      ),
    refetchInterval: LIVE_MS,
  });
}

export function useVersions(project: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["versions", id, project],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/projects/{project_id}/versions", {
          params: { path: { organisation_id: id, project_id: project }, query: { first: 50 } },
        }),
      ),
    refetchInterval: LIVE_MS,
    placeholderData: keepPreviousData,
  });
}

export function useVersionFiles(project: string, version: string | undefined) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["version-files", id, project, version],
    enabled: version !== undefined,
    staleTime: Number.POSITIVE_INFINITY, // a version's files never change
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/projects/{project_id}/versions/{version_id}/files", {
          params: { path: { organisation_id: id, project_id: project, version_id: version ?? "" } },
        }),
      ),
  });
}

/** What can be done to an environment. */
export type EnvironmentAction =
  | { type: "deploy"; environment: string }
  | { type: "deployVersion"; environment: string; version: string }
  | { type: "suspend"; environment: string };

export function useEnvironmentAction(project: string) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  const path = { organisation_id: id, project_id: project };
  return useMutation({
    mutationFn: (action: EnvironmentAction) => {
      switch (action.type) {
        case "deploy":
          return answer(
            api.PUT("/api/v2/o/{organisation_id}/projects/{project_id}/deploy", {
              params: { path, query: { env_id: action.environment } },
              body: {},
            }),
          );
        case "deployVersion":
          return answer(
            api.PUT("/api/v2/o/{organisation_id}/projects/{project_id}/versions/{version_id}/deploy", {
              params: { path: { ...path, version_id: action.version }, query: { env_id: action.environment } },
            }),
          );
        case "suspend":
          return answer(
            api.POST("/api/v2/o/{organisation_id}/projects/{project_id}/suspend", {
              params: { path, query: { environment: action.environment } },
            }),
          );
      }
    },
    onSuccess: (changed) => {
      client.setQueryData(["project", id, project], changed);
      return client.invalidateQueries({ queryKey: ["projects", id] });
    },
  });
}

/** Runs and failures between two times, in buckets. */
export function useSummary(start: string, end: string, buckets: number) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["summary", id, start],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/metricssummary", {
          params: { path: { organisation_id: id }, query: { start, end, buckets } },
        }),
      ),
    refetchInterval: 15_000,
    placeholderData: keepPreviousData,
  });
}

/** Something that the checks of a deploy found in the files. */
export interface Finding {
  filename?: string;
  line?: number;
  severity: "error" | "warning" | "info";
  message: string;
}

/** What a deploy of the project's current files would find. Who may not ask sees none. */
export function useFindings(project: Project) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["findings", id, project.id, project.currentFiles],
    enabled: project.currentFiles.files.length > 0,
    retry: false,
    staleTime: 60_000,
    queryFn: async () => {
      try {
        const path = `/api/v2/o/${encodeURIComponent(id)}/projects/${encodeURIComponent(project.id)}/validate`;
        return (await call<{ findings: Finding[] }>("PUT", path, project.currentFiles)).findings;
      } catch (error) {
        if (error instanceof ApiError && (error.status === 403 || error.status === 404)) return [];
        throw error;
      }
    },
  });
}
