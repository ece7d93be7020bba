import { useCallback, useMemo } from "react";
import { useLocation, useSearch } from "wouter";

/** Filters that live in the URL: what is set, and a way to change some of it. An empty value is left out. */
export function useFilters<Name extends string>(
  names: readonly Name[],
): [Record<Name, string>, (changes: Partial<Record<Name, string>>) => void] {
  const search = useSearch();
  const [location, navigate] = useLocation();
  const values = useMemo(() => readFilters(search, names), [search, names]);
  const change = useCallback(
    (changes: Partial<Record<Name, string>>) => {
      const changed = changedSearch(window.location.search, changes);
      navigate(`${location}${changed ? `?${changed}` : ""}`, { replace: true });
    },
    [location, navigate],
  );
  return [values, change];
}

export function readFilters<Name extends string>(search: string, names: readonly Name[]): Record<Name, string> {
  const given = new URLSearchParams(search);
  return Object.fromEntries(names.map((name) => [name, given.get(name) ?? ""])) as Record<Name, string>;
}

export function changedSearch(search: string, changes: Record<string, string | undefined>): string {
  const params = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  return params.toString();
}
