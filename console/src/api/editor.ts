import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { useOrganisation } from "../app/organisation";
import type { TextFile } from "../lib/diff";
import { sameFiles } from "../lib/editing";
import { ApiError, answer, api, type Schemas } from "./client";
import type { Finding, Project } from "./projects";
import { useChange, useKey } from "./queries";

export type ProjectTemplate = Schemas["ProjectTemplate"];

const PROJECT = "/projects/{project_id}";

/** What new projects can begin with. */
export function useProjectTemplates() {
  return useQuery({
    queryKey: ["project-templates"],
    queryFn: () => answer(api.GET("/api/v2/project-templates")),
    staleTime: Number.POSITIVE_INFINITY, // they come with the release
  });
}

/**
 * Makes a project with the files of a template. The id is chosen here: sent again after an answer that was lost, the
 * request makes no second project.
 */
export function useNewProject() {
  return useChange({
    change: async (send, { id, name, files }: { id: string; name: string; files: TextFile[] }) => {
      await send("post", "/projects", { body: { id, name } }).catch((error: unknown) => {
        if (!(error instanceof ApiError && error.status === 409)) throw error;
      });
      await send("put", "/projects/{project_id}/files", { at: { project_id: id }, body: { files, labels: {} } });
      return id;
    },
    stale: [["/projects"]],
  });
}

/** The files that the API has are others than those that the editor began with. */
export class FilesChanged extends Error {
  constructor(readonly theirs: TextFile[]) {
    super("The files were changed on the platform meanwhile.");
  }
}

export interface Save {
  base: TextFile[];
  files: TextFile[];
  message: string;
  environment: string;
}

const MOST_TRIES = 8;
const MOST_OLD = 3;
const AGAIN_MS = 300;

/** What the editor asks of the API for one project. */
export function useEditing(project: string) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  const key = useKey();
  return useMemo(() => {
    const path = { organisation_id: id, project_id: project };
    const read = async (): Promise<{ project: Project; etag: string }> => {
      const outcome = api.GET("/api/v2/o/{organisation_id}/projects/{project_id}", { params: { path } });
      const found = await answer(outcome);
      return { project: found, etag: (await outcome).response.headers.get("ETag") ?? "" };
    };
    const deploy = async ({ base, files, message, environment }: Save): Promise<Project> => {
      // The mark also changes with the state of the project: only other files are a conflict.
      for (let tries = 1; ; tries++) {
        const { project: now, etag } = await read();
        const theirs = now.currentFiles.files;
        if (!sameFiles(theirs, base) && !sameFiles(theirs, files)) {
          if (tries >= MOST_OLD) throw new FilesChanged(theirs);
          // Another replica of the API may not have heard yet of what was saved a moment ago.
          await new Promise((done) => setTimeout(done, AGAIN_MS));
          continue;
        }
        try {
          return await answer(
            api.PUT("/api/v2/o/{organisation_id}/projects/{project_id}/deploy", {
              params: { path, query: { env_id: environment }, header: { "If-Match": etag } as never },
              body: { files, versionDescription: message.trim() || undefined },
            }),
          );
        } catch (error) {
          if (!(error instanceof ApiError && error.status === 412) || tries === MOST_TRIES) throw error;
        }
      }
    };
    return {
      check: async (files: TextFile[], environment: string, signal: AbortSignal): Promise<Finding[]> => {
        const found = await answer(
          api.PUT("/api/v2/o/{organisation_id}/projects/{project_id}/validate", {
            params: { path, query: { env_id: environment } },
            body: { files },
            signal,
          }),
        );
        return found.findings;
      },
      /** Saves the files and deploys them. Throws FilesChanged if changes of another person would be lost. */
      deploy: async (save: Save): Promise<Project> => {
        const found = await deploy(save);
        client.setQueryData(key(PROJECT, { project_id: project }, {}), found);
        void client.invalidateQueries({ queryKey: key("/projects") });
        void client.invalidateQueries({
          queryKey: key("/projects/{project_id}/versions", { project_id: project }),
        });
        return found;
      },
    };
  }, [id, project, client, key]);
}
