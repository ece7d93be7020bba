import type { Schemas } from "./client";
import { useChange, useGet } from "./queries";

export type ApiKey = Schemas["ApiKey"];
export type RoleBinding = Schemas["RoleBinding"];
export type Change = Schemas["Change"];

const PAGE = 200;
/** The stream of changes covers neither role bindings nor the audit log. */
const UNWATCHED_MS = 30_000;

export function useApiKeys() {
  return useGet("/api-keys", { query: { first: PAGE }, shown: { kinds: ["apiKey"] } });
}

export interface NewKey {
  user: string;
  groups: string[];
  expiresAt?: string;
}

/** Makes a key. Its answer is the only one that has the key, so nothing keeps it but the caller. */
export function useNewKey() {
  return useChange({
    gcTime: 0,
    change: (send, body: NewKey) => send("post", "/api-keys", { body }),
    stale: [["/api-keys"]],
  });
}

export function useRevocation() {
  return useChange({
    change: (send, key: string) => send("delete", "/api-keys/{key_id}", { at: { key_id: key } }),
    stale: [["/api-keys"]],
  });
}

export function useRoleBindings() {
  return useGet("/role-bindings", { query: { first: PAGE }, refetchInterval: UNWATCHED_MS });
}

export type NewRole = Schemas["RoleBindingCreate"];

/** Assigns a role in the organisation. */
export function useNewRole() {
  return useChange({
    change: (send, body: NewRole) => send("post", "/role-bindings", { body }),
    stale: [["/role-bindings"], ["/api-keys"]],
  });
}

/** Removes a role binding that REST created. */
export function useRoleRemoval(binding: string) {
  return useChange({
    change: (send) => send("delete", "/role-bindings/{binding_id}", { at: { binding_id: binding } }),
    stale: [["/role-bindings"], ["/api-keys"]],
  });
}

/** The newest changes of the organisation, or of the object with this id. */
export function useChanges(object?: string) {
  return useGet("/changes", {
    query: { id: object, first: object ? 100 : 50 },
    retry: false,
    select: (found) => found.items,
    refetchInterval: UNWATCHED_MS,
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
