import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { ApiError, type Schemas } from "./client";
import { useChange, useGet, useKey, useSend } from "./queries";

export type Project = Schemas["Project"];
export type ProjectItem = Schemas["ProjectItem"];
export type Environment = Schemas["Environment"];
export type Version = Schemas["Version"];
export type Summary = Schemas["MetricsSummary"];

const PROJECT = "/projects/{project_id}";

export function useProjects() {
  return useGet("/projects", { shown: { kinds: ["project"] }, select: (found) => found.projects });
}

export function useProject(project: string) {
  return useGet(PROJECT, { at: { project_id: project }, shown: { kinds: ["project"], id: project } });
}

export function useVersions(project: string) {
  return useGet("/projects/{project_id}/versions", {
    at: { project_id: project },
    query: { first: 50 },
    shown: { kinds: ["version", "project"] },
    placeholderData: keepPreviousData,
  });
}

export function useVersionFiles(project: string, version: string | undefined) {
  return useGet("/projects/{project_id}/versions/{version_id}/files", {
    at: { project_id: project, version_id: version },
    staleTime: Number.POSITIVE_INFINITY, // a version's files never change
  });
}

/** What can be done to an environment. */
export type EnvironmentAction =
  | { type: "deploy"; environment: string; message?: string }
  | { type: "deployVersion"; environment: string; version: string; message?: string }
  | { type: "suspend"; environment: string };

export function useEnvironmentAction(project: string) {
  const at = { project_id: project };
  return useChange({
    change: (send, action: EnvironmentAction): Promise<Project> => {
      const query = { env_id: action.environment };
      switch (action.type) {
        case "deploy":
          return send("put", "/projects/{project_id}/deploy", { at, query, body: { message: action.message } });
        case "deployVersion":
          return send("put", "/projects/{project_id}/versions/{version_id}/deploy", {
            at: { ...at, version_id: action.version },
            query,
            body: { message: action.message },
          });
        case "suspend":
          return send("post", "/projects/{project_id}/suspend", { at, query: { environment: action.environment } });
      }
    },
    holds: [PROJECT, at],
    stale: [["/projects"]],
  });
}

/** Runs and failures between two times, in buckets. */
export function useSummary(start: string, end: string, buckets: number) {
  return useGet("/metricssummary", {
    query: { start, end, buckets },
    shown: { kinds: ["run"], spacingMs: 5_000 },
    placeholderData: keepPreviousData,
  });
}

export type Finding = Schemas["Finding"];

/** What a deploy of the project's current files would find. Who may not ask sees none. */
export function useFindings(project: Project) {
  const send = useSend();
  const key = useKey();
  const at = { project_id: project.id };
  return useQuery({
    queryKey: [...key(PROJECT, at), "findings", project.currentFiles],
    enabled: project.currentFiles.files.length > 0 && project.environments.length > 0,
    retry: false,
    staleTime: 60_000,
    queryFn: async () => {
      try {
        // Of several environments one has to be named; the files are the same in all of them.
        const query = { env_id: project.environments[0]?.id };
        const found = await send("put", "/projects/{project_id}/validate", {
          at,
          query,
          body: project.currentFiles,
        });
        return found.findings;
      } catch (error) {
        if (error instanceof ApiError && (error.status === 403 || error.status === 404)) return [];
        throw error;
      }
    },
  });
}
