/** Ranges of time that lists can be limited to, as they are in the URL (`last`), and their length in hours. */
export const RANGES = [
  ["1h", "the last hour", 1],
  ["1d", "the last day", 24],
  ["7d", "the last 7 days", 168],
] as const;

const HOUR = 3_600_000;
/** The beginning moves in steps, so that a page that is left and opened again shows the same list. */
const STEP = HOUR / 12;

/** When a range begins, for the API; empty for what is none. */
export function startOf(range: string, now: number): string {
  const hours = RANGES.find(([name]) => name === range)?.[2];
  return hours ? new Date(Math.floor(now / STEP) * STEP - hours * HOUR).toISOString() : "";
}

/** A time as inputs of browsers take it, in the reader's zone. */
export function localOf(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** A time as inputs of browsers give it, for the API; empty for what is none. */
export function isoOf(local: string): string {
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
}
