import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { answer, api, type Schemas } from "./client";
import { useChange, useGet } from "./queries";

export type CatalogueItem = Schemas["CatalogueItem"];
export type CatalogueEntry = Schemas["CatalogueEntry"];
export type CatalogueScheme = Schemas["CatalogueScheme"];
export type Category = CatalogueItem["categories"][number];

const PAGE = 60;

/** Entries that have every word of the search, of a category; page by page. */
export function useCatalogue(search: string, category: string) {
  return useInfiniteQuery({
    queryKey: ["catalogue", search, category],
    initialPageParam: undefined as string | undefined,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam }) =>
      answer(
        api.GET("/api/v2/catalogue", {
          params: {
            query: {
              first: PAGE,
              after: pageParam,
              search: search || undefined,
              category: (category || undefined) as Category | undefined,
            },
          },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
  });
}

export function useCatalogueEntry(entry: string) {
  return useQuery({
    queryKey: ["catalogue-entry", entry],
    queryFn: () => answer(api.GET("/api/v2/catalogue/{entry}", { params: { path: { entry } } })),
  });
}

/** The organisation's systems that were made of an entry. */
export function useSystemsOf(entry: string) {
  return useGet("/systems", {
    query: { first: 200 },
    select: (page) => page.items.filter((each) => each.labels?.catalogue === entry),
  });
}

/** Makes a system of an entry. Client secrets are kept nowhere in the page. */
export function useSystemFromEntry(entry: string) {
  return useChange({
    gcTime: 0,
    change: (send, body: Schemas["SystemFromEntry"]) =>
      send("post", "/catalogue/{entry}/systems", { at: { entry }, body }),
    stale: [["/systems"]],
  });
}
