import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api, type Schemas } from "./client";

export type Connection = Schemas["Connection"];

const PAGE = 200;

export function useConnections() {
  const { id } = useOrganisation();
  return useInfiniteQuery({
    queryKey: ["connections", id],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/connections", {
          params: { path: { organisation_id: id }, query: { first: PAGE, after: pageParam } },
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

/** Puts another value in the place of a key. The old one is gone then. */
export function useRotation(connection: Connection) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ credential, value }: { credential: Connection["credentials"][number]; value: string }) => {
      const changed = { type: "string" as const, data: { string: { value } } };
      const credentials = [{ ...credential, credential: { ...credential.credential, ...changed } }];
      const others = connection.credentials.filter((each) => each !== credential);
      return answer(
        api.PUT("/api/v2/o/{organisation_id}/connections/{connection_id}", {
          params: { path: { organisation_id: id, connection_id: connection.id } },
          body: { credentials: [...others, ...credentials] as never },
        }),
      );
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["connection", id, connection.id] }),
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
  if (expires && Date.parse(expires) < now) return { state: "expired", expires, errors };
  if (expires && Date.parse(expires) < now + SOON_MS) return { state: "expires soon", expires, errors };
  const checked = credentials.every((each) => each.errors !== undefined && each.errors !== null);
  return { state: checked ? "works" : "not checked", expires, errors };
}
