import {
  keepPreviousData,
  useInfiniteQuery,
  useMutation,
  useQueries,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api, type Schemas } from "./client";

export type EndUser = Schemas["EndUser"];
export type Activation = Schemas["Activation"];

const PAGE = 100;
const MOST_ENVIRONMENTS = 50;

export function useUsers(search: string, { enabled = true } = {}) {
  const { id } = useOrganisation();
  return useInfiniteQuery({
    queryKey: ["users", id, search],
    enabled,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/users", {
          params: {
            path: { organisation_id: id },
            query: { first: PAGE, after: pageParam, search: search || undefined },
          },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
}

export function useUser(user: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["user", id, user],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/users/{user_id}", {
          params: { path: { organisation_id: id, user_id: user } },
        }),
      ),
  });
}

/** A user's activations in the environments with these ids. */
export function useActivations(user: string | undefined, environments: string[]) {
  const { id } = useOrganisation();
  return useQueries({
    queries: environments.slice(0, MOST_ENVIRONMENTS).map((environment) => ({
      queryKey: ["activations", id, environment, user],
      enabled: user !== undefined,
      refetchInterval: 15_000,
      queryFn: () =>
        answer(
          api.GET("/api/v2/o/{organisation_id}/environment/{environment_id}/users/{external_user_id}/activations", {
            params: { path: { organisation_id: id, environment_id: environment, external_user_id: user ?? "" } },
          }),
        ),
    })),
    combine: (results) => ({
      pending: results.some((each) => each.isPending),
      error: results.find((each) => each.error)?.error,
      activations: results.flatMap((each) => each.data ?? []),
    }),
  });
}

/** The JSON Schema of a project's variables. */
export function useVariablesSchema(project: string | undefined) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["variables-schema", id, project],
    enabled: project !== undefined,
    queryFn: async () =>
      (await answer(
        api.GET("/api/v2/o/{organisation_id}/projects/{project_id}/variables", {
          params: { path: { organisation_id: id, project_id: project ?? "" } },
        }),
      )) as Record<string, unknown>,
  });
}

/** Sets variables of an activation; those that are not named stay. */
export function useVariables(environment: string, activation: string) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: (values: Record<string, unknown>) =>
      answer(
        api.PATCH(
          "/api/v2/o/{organisation_id}/environments/{environment_id}/activations/{activation_id}/variables",
          {
            params: {
              path: { organisation_id: id, environment_id: environment, activation_id: activation },
            },
            body: values,
          },
        ),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ["activations", id, environment] }),
  });
}
