import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api, type Schemas } from "./client";

export type ApiKey = Schemas["ApiKey"];
export type RoleBinding = Schemas["RoleBinding"];
export type Change = Schemas["Change"];

const PAGE = 200;

export function useApiKeys() {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["api-keys", id],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/api-keys", {
          params: { path: { organisation_id: id }, query: { first: PAGE } },
        }),
      ),
    refetchInterval: 15_000,
  });
}

export interface NewKey {
  user: string;
  groups: string[];
  expiresAt?: string;
}

/** Makes a key. Its answer is the only one that has the key, so nothing keeps it but the caller. */
export function useNewKey() {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    gcTime: 0,
    mutationFn: (body: NewKey) =>
      answer(api.POST("/api/v2/o/{organisation_id}/api-keys", { params: { path: { organisation_id: id } }, body })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["api-keys", id] }),
  });
}

export function useRevocation() {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (key: string): Promise<void> => {
      await answer(
        api.DELETE("/api/v2/o/{organisation_id}/api-keys/{key_id}", {
          params: { path: { organisation_id: id, key_id: key } },
        }),
      );
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["api-keys", id] }),
  });
}

export function useRoleBindings() {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["role-bindings", id],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/role-bindings", {
          params: { path: { organisation_id: id }, query: { first: PAGE } },
        }),
      ),
    refetchInterval: 30_000,
  });
}

/** The newest changes of the organisation, or of the object with this id. */
export function useChanges(object?: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["changes", id, object],
    retry: false,
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/changes", {
          params: { path: { organisation_id: id }, query: { id: object, first: object ? 100 : 50 } },
        }),
      ),
    select: (found) => found.items,
    refetchInterval: 30_000,
  });
}

/** Who besides REST owns fields of an object: requests that change those are refused. */
export function ownersOf(changes: Change[] | undefined): { manager: string; fields: string[] }[] {
  const found = new Map<string, string[]>();
  for (const each of changes ?? []) {
    if (each.type !== "change" || !each.external) continue;
    const fields = each.fields.filter((field) => field.startsWith("spec"));
    if (fields.length > 0) found.set(each.manager, [...(found.get(each.manager) ?? []), ...fields]);
  }
  return [...found].map(([manager, fields]) => ({ manager, fields }));
}

/** Who besides REST owns one of these fields of an object, or something below it; undefined where nobody does. */
export function useOwner(object: string, ...paths: string[]): string | undefined {
  const owners = ownersOf(useChanges(object).data);
  const holds = (field: string) =>
    paths.some((path) => field === path || field.startsWith(`${path}.`) || field.startsWith(`${path}[`));
  return owners.find((each) => each.fields.some(holds))?.manager;
}
