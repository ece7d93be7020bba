/** Where each page of the tab's history was scrolled to. It outlives a reload. */

import { newUlid } from "./ulid";

const STORED = "tieline.scroll";
const MOST = 100;
const KEY = "tielineEntry";

/** How far the parts of a page are scrolled: the page itself by an empty name, and lists by theirs. */
export type Offsets = Record<string, number>;

type Entries = [entry: string, offsets: Offsets][];

/** What names an entry of the history: it is made once, and stays with the entry. */
export function entryOf(history: History): string {
  const state: unknown = history.state;
  const known = typeof state === "object" && state !== null ? (state as Record<string, unknown>)[KEY] : undefined;
  if (typeof known === "string") return known;
  const made = newUlid();
  history.replaceState({ ...(typeof state === "object" ? state : {}), [KEY]: made }, "");
  return made;
}

export function offsetsOf(storage: Storage, entry: string): Offsets {
  return entries(storage).find(([each]) => each === entry)?.[1] ?? {};
}

/** Keeps the offsets of an entry, and forgets those of the entries that were left longest ago. */
export function keepOffsets(storage: Storage, entry: string, offsets: Offsets): void {
  const others = entries(storage).filter(([each]) => each !== entry);
  const kept = Object.values(offsets).some((each) => each > 0) ? [...others, [entry, offsets]] : others;
  try {
    storage.setItem(STORED, JSON.stringify(kept.slice(-MOST)));
  } catch {
    // A full storage: pages begin at their top.
  }
}

function entries(storage: Storage): Entries {
  try {
    const found: unknown = JSON.parse(storage.getItem(STORED) ?? "[]");
    return Array.isArray(found) ? found.filter(isEntry) : [];
  } catch {
    return [];
  }
}

function isEntry(each: unknown): each is Entries[number] {
  return Array.isArray(each) && typeof each[0] === "string" && typeof each[1] === "object" && each[1] !== null;
}
