import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { refusal } from "../lib/refusals";
import { answer, api, type Schemas } from "./client";

export type Connection = Schemas["Connection"];

const PAGE = 200;

/** All connections, or those that nothing uses. */
export function useConnections({ unused = false } = {}) {
  const { id } = useOrganisation();
  return useInfiniteQuery({
    queryKey: ["connections", id, unused],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/connections", {
          params: {
            path: { organisation_id: id },
            query: { first: PAGE, after: pageParam, unused: unused || undefined },
          },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: 15_000,
  });
}

export function useConnection(connection: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["connection", id, connection],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/connections/{connection_id}", {
          params: { path: { organisation_id: id, connection_id: connection } },
        }),
      ),
    refetchInterval: 10_000,
  });
}

export type Part = Connection["credentials"][number];

/** Stores other values of one credential. The old ones are gone then; the other credentials stay. */
export function useRotation(connection: Connection) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    gcTime: 0,
    mutationFn: ({ part, credential }: { part: Part; credential: object }) =>
      answer(
        api.PUT("/api/v2/o/{organisation_id}/connections/{connection_id}", {
          params: { path: { organisation_id: id, connection_id: connection.id } },
          body: {
            credentials: connection.credentials.map((each) =>
              each === part ? { id: each.id, credential } : { id: each.id },
            ) as never,
          },
        }),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: ["connection", id, connection.id] }),
  });
}

/** Changes what agents may call through a connection. */
export function useTools(connection: string) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: (tools: NonNullable<Connection["tools"]>) =>
      answer(
        api.PUT("/api/v2/o/{organisation_id}/connections/{connection_id}", {
          params: { path: { organisation_id: id, connection_id: connection } },
          body: { tools },
        }),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: ["connection", id, connection] }),
  });
}

export interface NewConnection {
  template: string;
  name: string;
  externalId?: string;
  credentials: object[];
}

export function useNewConnection() {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    gcTime: 0,
    mutationFn: ({ template, ...connection }: NewConnection) =>
      answer(
        api.POST("/api/v2/o/{organisation_id}/connections", {
          params: { path: { organisation_id: id } },
          body: { connectionTemplateId: template, connection: connection as never },
        }),
      ),
    onSuccess: () =>
      Promise.all([
        client.invalidateQueries({ queryKey: ["connections", id] }),
        client.invalidateQueries({ queryKey: ["templates", id] }),
      ]),
  });
}

export function useConnectionDeletion(connection: string) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (): Promise<void> => {
      await answer(
        api.DELETE("/api/v2/o/{organisation_id}/connections/{connection_id}", {
          params: { path: { organisation_id: id, connection_id: connection } },
        }),
      );
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["connections", id] }),
  });
}

/** Sends a request that changes nothing through the connection. */
export function useConnectionTest(connection: string) {
  const { id } = useOrganisation();
  return useMutation({
    mutationFn: (path: string) =>
      answer(
        api.POST("/api/v2/o/{organisation_id}/connections/{connection_id}/test", {
          params: { path: { organisation_id: id, connection_id: connection } },
          body: { method: "GET", path },
        }),
      ),
  });
}

/** The templates and activations that a connection is used by. */
export function useUses(connection: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["uses", id, connection],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/connections/{connection_id}/uses", {
          params: { path: { organisation_id: id, connection_id: connection } },
        }),
      ),
    refetchInterval: 15_000,
  });
}

const SOON_MS = 7 * 24 * 3600 * 1000;

export type ConnectionState = "refused" | "expired" | "expires soon" | "works" | "not checked";

/** What is to be said of a connection first. */
export function stateOf(
  connection: Connection,
  now: number,
): { state: ConnectionState; expires?: string; errors: string[] } {
  const credentials = connection.credentials.flatMap((each) => (each.credential ? [each.credential] : []));
  const errors = credentials.flatMap((each) => each.errors ?? []);
  const expires = credentials.flatMap((each) => (each.expiresAt ? [each.expiresAt] : [])).sort()[0];
  if (errors.length > 0) return { state: "refused", expires, errors };
  if (connection.refused) return { state: "refused", expires, errors: [refusal(connection.refused)] };
  if (expires && Date.parse(expires) < now) return { state: "expired", expires, errors };
  if (expires && Date.parse(expires) < now + SOON_MS) return { state: "expires soon", expires, errors };
  const checked = credentials.every((each) => each.errors !== undefined && each.errors !== null);
  return { state: checked ? "works" : "not checked", expires, errors };
}
