import { useInfiniteQuery } from "@tanstack/react-query";
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
