import { keepPreviousData } from "@tanstack/react-query";
import type { Schemas } from "./client";
import { useChange, useGet, usePages } from "./queries";
import { TEMPLATES } from "./templates";

export type Connection = Schemas["Connection"];

const PAGE = 200;
export const CONNECTION = "/connections/{connection_id}";

interface Wanted {
  /** In the name. */
  search?: string;
  unused?: boolean;
  endsBefore?: string;
}

/** All connections, or those that are looked for, that nothing uses, or with credentials that expire before a time. */
export function useConnections(
  { search = "", unused = false, endsBefore }: Wanted = {},
  { enabled = true, first = PAGE } = {},
) {
  return usePages("/connections", {
    enabled,
    query: { first, search: search || undefined, unused: unused || undefined, expires_before: endsBefore },
    placeholderData: keepPreviousData,
    shown: { kinds: ["connection", "connectionTemplate", "activation", "system"] },
  });
}

/** How many connections there are with credentials that expire before a time. */
export function useEndingCount(endsBefore: string) {
  return useGet("/connections", {
    query: { first: 1, expires_before: endsBefore },
    shown: { kinds: ["connection"] },
    select: (found) => found.totalCount,
  });
}

export function useConnection(connection: string) {
  return useGet(CONNECTION, {
    at: { connection_id: connection },
    shown: { kinds: ["connection"], id: connection },
  });
}

export type Part = Connection["credentials"][number];

interface Rotation {
  part: Part;
  credential: { type: string };
  /** How long the old values stay valid beside the new ones. */
  keepUntil?: string;
}

function replaced(part: Part, credential: Rotation["credential"], keepUntil?: string): object[] {
  if (!keepUntil || !part.authSchemeConfigId) return [{ id: part.id, credential }];
  return [
    { id: part.id, credential: { type: credential.type, expiresAt: keepUntil } },
    { authSchemeConfigId: part.authSchemeConfigId, credential },
  ];
}

/** Replaces the values of one credential, at once or when `keepUntil` has passed. Other credentials are kept. */
export function useRotation(connection: Connection) {
  const at = { connection_id: connection.id };
  return useChange({
    gcTime: 0,
    change: (send, { part, credential, keepUntil }: Rotation) => {
      const credentials = connection.credentials.flatMap((each): object[] =>
        each === part ? replaced(part, credential, keepUntil) : [{ id: each.id }],
      );
      return send("put", CONNECTION, { at, body: { credentials: credentials as never } });
    },
    unsure: [[CONNECTION, at]],
  });
}

/** Changes the variables of a connection. Those that are left out are removed. */
export function useVariables(connection: string) {
  const at = { connection_id: connection };
  return useChange({
    change: (send, variables: Connection["variables"]) => send("put", CONNECTION, { at, body: { variables } }),
    unsure: [[CONNECTION, at]],
  });
}

/** Changes what agents may call through a connection. */
export function useTools(connection: string) {
  const at = { connection_id: connection };
  return useChange({
    change: (send, tools: NonNullable<Connection["tools"]>) => send("put", CONNECTION, { at, body: { tools } }),
    unsure: [[CONNECTION, at]],
  });
}

export interface NewConnection {
  template: string;
  name: string;
  externalId?: string;
  credentials: object[];
  variables?: Connection["variables"];
}

export function useNewConnection() {
  return useChange({
    gcTime: 0,
    change: (send, { template, ...connection }: NewConnection) =>
      send("post", "/connections", {
        body: { connectionTemplateId: template, connection: connection as never },
      }),
    stale: [["/connections"], [TEMPLATES]],
  });
}

export function useConnectionDeletion(connection: string) {
  return useChange({
    change: (send) => send("delete", CONNECTION, { at: { connection_id: connection } }),
    stale: [["/connections"], ["/environment/{environment_id}/users/{external_user_id}/activations"]],
  });
}

/** Sends a request that changes nothing through the connection: of this path, or the system's check without one. */
export function useConnectionTest(connection: string) {
  const at = { connection_id: connection };
  return useChange({
    change: (send, path: string) =>
      send("post", "/connections/{connection_id}/test", { at, body: path ? { method: "GET", path } : {} }),
    unsure: [[CONNECTION, at]],
  });
}

/** The templates and activations that a connection is used by. */
export function useUses(connection: string) {
  return useGet("/connections/{connection_id}/uses", {
    at: { connection_id: connection },
    shown: { kinds: ["connectionTemplate", "activation", "project", "connection"] },
  });
}
