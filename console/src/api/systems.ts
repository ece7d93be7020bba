import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api, type Schemas } from "./client";

export type System = Schemas["System"];
export type Connector = Schemas["Connector"];

const PAGE = 100;

export function useSystems(search: string) {
  const { id } = useOrganisation();
  return useInfiniteQuery({
    queryKey: ["systems", id, search],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/systems", {
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

export function useConnectors(search: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["connectors", id, search],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/connectors", {
          params: { path: { organisation_id: id }, query: { first: PAGE, search: search || undefined } },
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
}

/** Imports an OpenAPI description as a version of a connector. */
export function useImport() {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ connector, version, file }: { connector: string; version: string; file: File }) => {
      const form = new FormData();
      form.append(
        "metadata",
        new Blob([JSON.stringify({ format: "openapi", version })], { type: "application/json" }),
      );
      form.append("file", file);
      return answer(
        api.POST("/api/connect/v1/o/{organisation_id}/connector/{connector_id}/http/import", {
          params: { path: { organisation_id: id, connector_id: connector } },
          body: form as never,
          bodySerializer: (body) => body as unknown as FormData,
        }),
      );
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["connectors", id] }),
  });
}
