import type { Schemas } from "./client";
import { useChange, useGet } from "./queries";

export type Template = Schemas["ConnectionTemplate"];

export const TEMPLATES = "/projects/{project_id}/connection-templates";

/** The systems of an environment, under the names by which code refers to them. */
export function useTemplates(project: string | undefined, environment: string | undefined) {
  return useGet(TEMPLATES, {
    at: { project_id: project },
    query: { env_id: environment },
    enabled: Boolean(environment),
    select: (found) => found.items,
  });
}

export function useNewTemplate() {
  return useChange({
    change: (send, { project, ...body }: { project: string } & Schemas["TemplateCreate"]) =>
      send("post", TEMPLATES, { at: { project_id: project }, body }),
    stale: [[TEMPLATES]],
  });
}
