import { keepPreviousData, useQueries } from "@tanstack/react-query";
import type { Schemas } from "./client";
import { useChange, useGet, useKey, useLive, usePages, useSend } from "./queries";

export type EndUser = Schemas["EndUser"];
export type Activation = Schemas["Activation"];

const PAGE = 100;
const MOST_ENVIRONMENTS = 50;
const ACTIVATIONS = "/environment/{environment_id}/users/{external_user_id}/activations";

export function useUsers(search: string, { enabled = true } = {}) {
  return usePages("/users", {
    query: { first: PAGE, search: search || undefined },
    enabled,
    placeholderData: keepPreviousData,
    shown: { kinds: ["user"] },
  });
}

export function useUser(user: string) {
  return useGet("/users/{user_id}", { at: { user_id: user } });
}

/** A user's activations in the environments with these ids. */
export function useActivations(user: string | undefined, environments: string[]) {
  const send = useSend();
  const key = useKey();
  const live = useLive({ kinds: ["activation", "connection"] });
  return useQueries({
    queries: environments.slice(0, MOST_ENVIRONMENTS).map((environment) => {
      const at = { environment_id: environment, external_user_id: user ?? "" };
      return {
        queryKey: key(ACTIVATIONS, at),
        enabled: user !== undefined,
        ...live,
        queryFn: () => send("get", ACTIVATIONS, { at }),
      };
    }),
    combine: (results) => ({
      pending: results.some((each) => each.isPending),
      error: results.find((each) => each.error)?.error,
      activations: results.flatMap((each) => each.data ?? []),
    }),
  });
}

/** The JSON Schema of a project's variables. */
export function useVariablesSchema(project: string | undefined) {
  return useGet("/projects/{project_id}/variables", {
    at: { project_id: project },
    select: (found) => found as Record<string, unknown>,
  });
}

/** Values of variables to set, and the names of those to unset; others stay. */
export interface VariablesChange {
  values: Record<string, unknown>;
  unset: string[];
}

/** Changes variables of an activation. */
export function useVariables(environment: string, activation: string) {
  return useChange({
    change: (send, { values, unset }: VariablesChange) =>
      send("patch", "/environments/{environment_id}/activations/{activation_id}/variables", {
        at: { environment_id: environment, activation_id: activation },
        query: unset.length > 0 ? { unset } : {},
        body: values,
      }),
    stale: [[ACTIVATIONS, { environment_id: environment }]],
  });
}

export function useNewUser() {
  return useChange({
    change: (send, body: Schemas["UserCreate"]) => send("post", "/users", { body }),
    stale: [["/users"]],
  });
}

/** Deletes a user with the activations and connections that REST made for them. */
export function useUserDeletion(user: string) {
  return useChange({
    change: (send) => send("delete", "/users/{user_id}", { at: { user_id: user } }),
    stale: [["/users"], ["/connections"]],
  });
}

export type NewActivation = Schemas["ActivationCreate"];

export function useNewActivation() {
  return useChange({
    change: (send, body: NewActivation) => send("post", "/activations", { body }),
    stale: [[ACTIVATIONS]],
  });
}

export function useDeactivation(environment: string, activation: string) {
  return useChange({
    change: (send) =>
      send("delete", "/environments/{environment_id}/activations/{activation_id}", {
        at: { environment_id: environment, activation_id: activation },
      }),
    stale: [[ACTIVATIONS]],
  });
}

/** The connections of a user, by id. */
export function useUserConnections(user: string) {
  return useGet("/connections", {
    query: { first: PAGE, end_user_id: user },
    select: (found) => found.items,
    shown: { kinds: ["connection"] },
  });
}
