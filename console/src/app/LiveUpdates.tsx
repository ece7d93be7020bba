import { type Query, type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { MOST_PAGES } from "../api/queries";
import { SESSION } from "../api/session";
import { concerns, dueMs, type Shown } from "../lib/changes";
import { follow, type Update } from "../lib/live";
import { useOrganisation } from "./organisation";

const SPACING_MS = 2000;
/** After a server stops, its clients reconnect at once: their reads spread over this time. */
const SPREAD_MS = 2000;

/** Refetches the queries of a page when their objects change. */
export function LiveUpdates() {
  const { id } = useOrganisation();
  const client = useQueryClient();
  useEffect(() => {
    const reading = readerOf(client, id);
    const end = follow(id, reading.onUpdate, () => void client.invalidateQueries({ queryKey: SESSION }));
    return () => {
      end();
      reading.stop();
    };
  }, [client, id]);
  return null;
}

function readerOf(client: QueryClient, organisation: string) {
  const waiting = new Map<string, ReturnType<typeof setTimeout>>();
  let isFirst = true;

  const readSoon = (query: Query, atLeast: number) => {
    if (waiting.has(query.queryHash)) return;
    const spacing = (query.meta?.shown as Shown | undefined)?.spacingMs ?? SPACING_MS;
    const due = Math.max(dueMs(query.state, spacing, Date.now()), atLeast);
    const read = () => {
      waiting.delete(query.queryHash);
      // A read that is under way may precede the change.
      if (query.state.fetchStatus === "fetching") readSoon(query, spacing);
      else void client.invalidateQueries({ queryKey: query.queryKey, exact: true });
    };
    waiting.set(query.queryHash, setTimeout(read, Math.max(due, 0)));
  };

  const shownNow = () =>
    client.getQueryCache().findAll({
      type: "active",
      predicate: ({ meta, queryKey, state }) => {
        // Long lists are refreshed by the user only.
        const pages = (state.data as { pages?: unknown[] } | undefined)?.pages?.length ?? 0;
        return meta?.shown !== undefined && queryKey[1] === organisation && pages <= MOST_PAGES;
      },
    });

  return {
    onUpdate: (update: Update) => {
      if (update.type === "missed") {
        const spread = isFirst ? 0 : Math.random() * SPREAD_MS;
        for (const query of shownNow()) readSoon(query, spread);
        isFirst = false;
        return;
      }
      for (const query of shownNow()) {
        if (concerns(update.changes, query.meta?.shown as Shown)) readSoon(query, 0);
      }
    },
    stop: () => {
      for (const timer of waiting.values()) clearTimeout(timer);
      waiting.clear();
    },
  };
}
