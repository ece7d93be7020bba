import type { Schemas } from "../api/client";
import { visible } from "./text";

type Connection = Schemas["Connection"];

/** Credentials that expire within so many days expire soon. */
export const SOON_DAYS = 14;
export const SOON_MS = SOON_DAYS * 24 * 3600 * 1000;
const HOUR_MS = 3600 * 1000;

/** The end of the time that counts as soon, rounded to the hour, so that the query stays the same within an hour. */
export function soon(now: number): string {
  return new Date(Math.ceil(now / HOUR_MS) * HOUR_MS + SOON_MS).toISOString();
}

/** The last refusal after which the system accepted the credentials again; undefined if there is none. */
export function pastRefusal({ lastRefusal, refused }: Connection): string | undefined {
  if (!lastRefusal || refused) return undefined;
  return `${lastRefusal.status}${lastRefusal.said ? `: “${visible(lastRefusal.said)}”` : ""}`;
}

export type ConnectionState =
  | "refused"
  | "invalid"
  | "expired"
  | "not authorised"
  | "expires soon"
  | "not checked"
  | "works";

/** Requests that a system refused, in words. */
export function refusal({ count, status, said }: { count: number; status: number; said?: string | null }): string {
  const often = count === 1 ? "a request" : `at least ${count} requests`;
  const answer = said ? `: “${visible(said)}”` : "";
  return `It answered ${often} with ${status}${answer}. Runs that use the connection fail.`;
}

/** What is to be said of a connection first, and what is wrong with it. */
export function stateOf(
  connection: Connection,
  now: number,
): { state: ConnectionState; expires?: string; errors: string[] } {
  const credentials = connection.credentials.flatMap((each) => (each.credential ? [each.credential] : []));
  const expires = connection.expires[0]?.at;
  const errors = credentials.flatMap((each) => each.errors ?? []);
  if (connection.refused) errors.push(refusal(connection.refused));
  return { state: first(connection.state, expires, now), expires, errors };
}

function first(state: Connection["state"], expires: string | undefined, now: number): ConnectionState {
  if (state === "refused" || state === "invalid") return state;
  if (expires && Date.parse(expires) < now) return "expired";
  if (state === "not_authorised") return "not authorised";
  if (expires && Date.parse(expires) < now + SOON_MS) return "expires soon";
  return state === "works" ? "works" : "not checked";
}
