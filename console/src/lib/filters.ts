import { useCallback, useMemo } from "react";
import { useLocation, useSearch } from "wouter";
import { startOf } from "./ranges";

/** Filters that live in the URL: what is set, and a way to change some of it. An empty value is left out; each line of a
 * value is one of several, such as tags. */
export function useFilters<Name extends string>(
  names: readonly Name[],
): [Record<Name, string>, (changes: Partial<Record<Name, string>>) => void] {
  const search = useSearch();
  const [location, navigate] = useLocation();
  const values = useMemo(() => readFilters(search, names), [search, names]);
  const change = useCallback(
    (changes: Partial<Record<Name, string>>) => {
      const changed = changedSearch(window.location.search, changes);
      // The entry of the history stays the same one, and so does where it is scrolled to.
      navigate(`${location}${changed ? `?${changed}` : ""}`, { replace: true, state: window.history.state });
    },
    [location, navigate],
  );
  return [values, change];
}

/** The filters with the beginning of the range that is chosen: it stays the same until another one is chosen. */
export function useResolved<T extends { last: string; start: string }>(filters: T): T {
  const start = useMemo(() => startOf(filters.last, Date.now()), [filters.last]);
  return useMemo(() => (start ? { ...filters, start } : filters), [filters, start]);
}

export function readFilters<Name extends string>(search: string, names: readonly Name[]): Record<Name, string> {
  const given = new URLSearchParams(search);
  return Object.fromEntries(names.map((name) => [name, given.getAll(name).join("\n")])) as Record<Name, string>;
}

export function changedSearch(search: string, changes: Record<string, string | undefined>): string {
  const params = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    params.delete(name);
    for (const each of value ? value.split("\n") : []) params.append(name, each);
  }
  return params.toString();
}
