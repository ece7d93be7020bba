import { type QueryClient, useQuery } from "@tanstack/react-query";
import { announceSignOut } from "../lib/live";
import { answer, api, call, type Schemas } from "./client";

/** How one can sign in. */
export type Method = { type: "token" } | { type: "oidc"; name: string };

export interface Session {
  signedIn: boolean;
  methods: Method[];
  expiresAt?: string;
}

/** An organisation that the caller reaches. */
export type Organisation = Schemas["ReachedOrganisation"];

/** Who is signed in, and what they reach. */
export type Me = Schemas["Me"];

export const SESSION = ["session"];

export function useSession() {
  return useQuery({
    queryKey: SESSION,
    queryFn: () => call<Session>("GET", "/console/session"),
    refetchInterval: 60_000,
  });
}

const ME = { queryKey: ["me"], queryFn: () => answer(api.GET("/api/v2/me")) };

const WITHOUT_ROLE_MS = 5000;

/** Who is signed in, with their organisations: read again until there is one. */
export function useMe(enabled: boolean) {
  return useQuery({
    ...ME,
    enabled,
    refetchInterval: ({ state }) => (state.data?.organisations.length === 0 ? WITHOUT_ROLE_MS : false),
  });
}

/** Who is signed in now. */
export function readMe(client: QueryClient): Promise<Me> {
  return client.fetchQuery({ ...ME, staleTime: 0 });
}

/** Forgets what one person has read: it is not there for the next one. */
export function forgetPerson(client: QueryClient): void {
  client.setQueryData<Session>(SESSION, (found) => found && { ...found, signedIn: false });
  client.removeQueries({ predicate: (each) => each.queryKey[0] !== SESSION[0] });
}

export function signIn(token: string): Promise<void> {
  return call("POST", "/console/session", { token });
}

/** Ends the session; where the issuer has a page to sign out from, its URL. */
export async function signOut(): Promise<string | undefined> {
  const found = await call<{ logoutUrl?: string } | undefined>("DELETE", "/console/session");
  announceSignOut();
  return found?.logoutUrl;
}
