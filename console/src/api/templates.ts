import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api, type Schemas } from "./client";

export type Template = Schemas["ConnectionTemplate"];

/** The systems of an environment, under the names by which code refers to them. */
export function useTemplates(project: string | undefined, environment: string | undefined) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["templates", id, project, environment],
    enabled: Boolean(project && environment),
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/projects/{project_id}/connection-templates", {
          params: { path: { organisation_id: id, project_id: project ?? "" }, query: { env_id: environment } },
        }),
      ),
    select: (found) => found.items,
  });
}

export function useNewTemplate() {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ project, ...body }: { project: string } & Schemas["TemplateCreate"]) =>
      answer(
        api.POST("/api/v2/o/{organisation_id}/projects/{project_id}/connection-templates", {
          params: { path: { organisation_id: id, project_id: project } },
          body,
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ["templates", id] }),
  });
}
