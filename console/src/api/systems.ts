import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { formatOf, nameOf } from "../lib/operations";
import { answer, api, type Schemas } from "./client";
import { useChange, useGet, useKey, usePages, useSend } from "./queries";

export type System = Schemas["System"];
export type Connector = Schemas["Connector"];

const PAGE = 100;
const FOUND = 20;

export function useSystems(search: string, { enabled = true } = {}) {
  return usePages("/systems", {
    query: { first: PAGE, search: search || undefined },
    enabled,
    placeholderData: keepPreviousData,
    shown: { kinds: ["system"] },
  });
}

export function useConnectors(search: string) {
  return useGet("/connectors", {
    query: { first: PAGE, search: search || undefined },
    placeholderData: keepPreviousData,
    shown: { kinds: ["connector", "connectorVersion"] },
  });
}

export type FoundOperation = Schemas["FoundOperation"];

/** Operations of all connectors that have every word of the search; nothing while nothing is searched for. */
export function useOperationSearch(search: string) {
  return usePages("/connectors/operations", {
    query: { first: FOUND, search },
    enabled: search.trim() !== "",
    placeholderData: keepPreviousData,
  });
}

export function useNewSystem() {
  return useChange({
    change: (send, body: Schemas["SystemCreate"]) => send("post", "/systems", { body }),
    stale: [["/systems"]],
  });
}

const SYSTEM = "/systems/{system_id}";
const SCHEME = "/systems/{system_id}/auth-scheme-configs/{id}";

/** Changes a system; what is left out stays. */
export function useSystemUpdate(system: string) {
  const at = { system_id: system };
  return useChange({
    change: (send, body: Schemas["SystemUpdate"]) => send("put", SYSTEM, { at, body }),
    stale: [["/systems"], [SYSTEM, at]],
  });
}

export function useSystemDeletion(system: string) {
  return useChange({
    change: (send) => send("delete", SYSTEM, { at: { system_id: system } }),
    stale: [["/systems"]],
  });
}

/** Adds an auth scheme to a system, or changes one. Client secrets are kept nowhere in the page. */
export function useScheme(system: string) {
  const at = { system_id: system };
  return useChange({
    gcTime: 0,
    change: (send, { id, scheme }: { id: string; scheme: Schemas["AuthSchemeConfigInput"] }) =>
      send("put", SCHEME, { at: { ...at, id }, body: scheme }),
    stale: [["/systems"], [SYSTEM, at]],
  });
}

export function useSchemeDeletion(system: string) {
  const at = { system_id: system };
  return useChange({
    change: (send, id: string) => send("delete", SCHEME, { at: { ...at, id } }),
    stale: [["/systems"], [SYSTEM, at]],
  });
}

interface Import {
  connector: string;
  version: string;
  file: File;
  /** Whether the connector is made by the import. */
  isNew: boolean;
}

/** Imports an OpenAPI description, or a GraphQL schema, as a version of a connector. */
export function useImport() {
  const { id } = useOrganisation();
  const client = useQueryClient();
  const key = useKey();
  return useMutation({
    mutationFn: async ({ connector, version, file, isNew }: Import) => {
      const form = new FormData();
      const format = await formatOf(file);
      const metadata: Schemas["ImportMetadata"] = { format, version };
      if (isNew && format === "graphql") metadata.name = nameOf(file);
      form.append("metadata", new Blob([JSON.stringify(metadata)], { type: "application/json" }));
      form.append("file", file);
      return answer(
        api.POST("/api/connect/v1/o/{organisation_id}/connector/{connector_id}/http/import", {
          params: { path: { organisation_id: id, connector_id: connector } },
          body: form as never,
          bodySerializer: (body) => body as unknown as FormData,
        }),
      );
    },
    onSuccess: () => client.invalidateQueries({ queryKey: key("/connectors") }),
  });
}

export type Action = Schemas["Action"];

export function useSystem(system: string) {
  return useGet("/systems/{system_id}", { at: { system_id: system }, shown: { kinds: ["system"], id: system } });
}

export function useConnector(connector: string) {
  return useGet("/connectors/{connector_id}", { at: { connector_id: connector } });
}

/** One version, with what was found when it was imported. */
export function useConnectorVersion(connector: string, version: string | undefined) {
  return useGet("/connectors/{connector_id}/versions/{version}", {
    at: { connector_id: connector, version },
    staleTime: Number.POSITIVE_INFINITY, // versions never change
  });
}

const ACTIONS = "/connectors/{connector_id}/versions/{version}/actions";
const ACTIONS_PAGE = 200;
const MOST_PAGES = 25;

/** All operations of a version, up to 5,000: the search is in the page. */
export function useActions(connector: string, version: string | undefined) {
  const send = useSend();
  const key = useKey();
  const at = { connector_id: connector, version: version ?? "" };
  return useQuery({
    queryKey: key(ACTIONS, at),
    enabled: version !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => {
      const found: Action[] = [];
      let total = 0;
      let after: string | undefined;
      for (let page = 0; page < MOST_PAGES; page++) {
        const part = await send("get", ACTIONS, { at, query: { first: ACTIONS_PAGE, after } });
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
  return useChange({
    change: (send, { version, ...body }: { version: string } & Schemas["SystemFromVersion"]) =>
      send("post", "/connectors/{connector_id}/versions/{version}/systems", {
        at: { connector_id: connector, version },
        body,
      }),
    stale: [["/systems"]],
  });
}
