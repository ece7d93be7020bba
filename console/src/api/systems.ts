import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api, type Schemas } from "./client";

export type System = Schemas["System"];
export type Connector = Schemas["Connector"];

const PAGE = 100;
const FOUND = 20;

export function useSystems(search: string, { enabled = true } = {}) {
  const { id } = useOrganisation();
  return useInfiniteQuery({
    queryKey: ["systems", id, search],
    enabled,
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

export type FoundOperation = Schemas["FoundOperation"];

/** Operations of all connectors that have every word of the search; nothing while nothing is searched for. */
export function useOperationSearch(search: string) {
  const { id } = useOrganisation();
  return useInfiniteQuery({
    queryKey: ["operations", id, search],
    enabled: search.trim() !== "",
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/connectors/operations", {
          params: { path: { organisation_id: id }, query: { first: FOUND, after: pageParam, search } },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
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

export type Action = Schemas["Action"];

export function useSystem(system: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["system", id, system],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/systems/{system_id}", {
          params: { path: { organisation_id: id, system_id: system } },
        }),
      ),
    refetchInterval: 15_000,
  });
}

export function useConnector(connector: string) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["connector", id, connector],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/connectors/{connector_id}", {
          params: { path: { organisation_id: id, connector_id: connector } },
        }),
      ),
  });
}

/** One version, with what was found when it was imported. */
export function useConnectorVersion(connector: string, version: string | undefined) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["connector-version", id, connector, version],
    enabled: version !== undefined,
    staleTime: Number.POSITIVE_INFINITY, // versions never change
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/connectors/{connector_id}/versions/{version}", {
          params: { path: { organisation_id: id, connector_id: connector, version: version ?? "" } },
        }),
      ),
  });
}

const ACTIONS = 200;
const MOST_PAGES = 25;

/** All operations of a version, up to 5,000: the search is in the page. */
export function useActions(connector: string, version: string | undefined) {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["actions", id, connector, version],
    enabled: version !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => {
      const found: Action[] = [];
      let total = 0;
      let after: string | undefined;
      for (let page = 0; page < MOST_PAGES; page++) {
        const part = await answer(
          api.GET("/api/v2/o/{organisation_id}/connectors/{connector_id}/versions/{version}/actions", {
            params: {
              path: { organisation_id: id, connector_id: connector, version: version ?? "" },
              query: { first: ACTIONS, after },
            },
          }),
        );
        found.push(...part.items);
        total = part.totalCount;
        after = part.next ?? undefined;
        if (!after) break;
      }
      return { actions: found, total };
    },
  });
}

/** Makes a system with the base URL and the auth schemes of a connector's version. */
export function useSystemOf(connector: string) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ version, ...body }: { version: string } & Schemas["SystemFromVersion"]) =>
      answer(
        api.POST("/api/v2/o/{organisation_id}/connectors/{connector_id}/versions/{version}/systems", {
          params: { path: { organisation_id: id, connector_id: connector, version } },
          body,
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ["systems", id] }),
  });
}
