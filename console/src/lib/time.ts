import { useSyncExternalStore } from "react";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const ABSOLUTE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const SHORT = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hour12: false,
});

/** Date, time and zone, in the reader's zone. */
export function absolute(iso: string): string {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? iso : ABSOLUTE.format(at);
}

/** Time of day with milliseconds, in the reader's zone, as in a log. */
export function clock(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  return `${CLOCK.format(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** Day and time, in the reader's zone. */
export function short(iso: string): string {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? iso : SHORT.format(at);
}

/** How long ago, or how soon: `12 s ago`, `in 3 d`. */
export function relative(iso: string, now: number): string {
  const distance = now - new Date(iso).getTime();
  if (Number.isNaN(distance)) return iso;
  const size = Math.abs(distance);
  if (size < 5 * SECOND) return "now";
  const text = coarse(size);
  return distance > 0 ? `${text} ago` : `in ${text}`;
}

function coarse(size: number): string {
  if (size < MINUTE) return `${Math.floor(size / SECOND)} s`;
  if (size < HOUR) return `${Math.floor(size / MINUTE)} min`;
  if (size < 2 * DAY) return `${Math.floor(size / HOUR)} h`;
  return `${Math.floor(size / DAY)} d`;
}

/** A length of time: `3 ms`, `1.25 s`, `4 min 2 s`. */
export function duration(milliseconds: number): string {
  if (milliseconds < 1) return `${Math.max(0, Math.round(milliseconds * 1000))} µs`;
  if (milliseconds < SECOND) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < MINUTE) return `${(milliseconds / SECOND).toFixed(milliseconds < 10 * SECOND ? 2 : 1)} s`;
  if (milliseconds < HOUR)
    return `${Math.floor(milliseconds / MINUTE)} min ${Math.floor((milliseconds % MINUTE) / SECOND)} s`;
  return `${Math.floor(milliseconds / HOUR)} h ${Math.floor((milliseconds % HOUR) / MINUTE)} min`;
}

/** Milliseconds between two times. */
export function between(start: string, end: string): number {
  return new Date(end).getTime() - new Date(start).getTime();
}

/** The time so many hours from now, for the API. */
export function inHours(hours: number): string {
  return new Date(Date.now() + hours * HOUR).toISOString();
}

let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 5 * SECOND);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0 && timer) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time, every five seconds anew. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
