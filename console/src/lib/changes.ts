import type { components } from "../api/schema";

export type Change = components["schemas"]["ChangedObject"];
export type Kind = Change["kind"];

/** The objects that a query shows: it is refetched when they change. */
export interface Shown {
  kinds: readonly Kind[];
  /** The one object of the first kind that it is about; all of them where there is none. */
  id?: string;
  /** The least time between two reads, however many changes arrive; 2 seconds by default. */
  spacingMs?: number;
}

/** Milliseconds until a query is refetched; a failed read is not repeated sooner. */
export function dueMs(
  read: { dataUpdatedAt: number; errorUpdatedAt: number },
  spacingMs: number,
  now: number,
): number {
  return Math.max(read.dataUpdatedAt, read.errorUpdatedAt) + spacingMs - now;
}

/** Whether changes concern what a query shows. A change without an id may be of any object. */
export function concerns(changes: readonly Change[], shown: Shown): boolean {
  return changes.some(({ kind, id }) => {
    if (!shown.kinds.includes(kind)) return false;
    return shown.id === undefined || kind !== shown.kinds[0] || !id || id === shown.id;
  });
}
