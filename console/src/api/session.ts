import { useQuery } from "@tanstack/react-query";
import { call } from "./client";

/** How one can sign in. */
export type Method = { type: "token" } | { type: "oidc"; name: string };

export interface Session {
  signedIn: boolean;
  methods: Method[];
  expiresAt?: string;
}

export type Role = "viewer" | "editor" | "admin" | "custom";

export interface Organisation {
  id: string;
  name: string;
  namespace: string;
  role: Role;
}

/** `GET /api/v2/me`: who is signed in, and what they reach. */
export interface Me {
  id: string;
  name: string;
  kind: "user" | "serviceAccount" | "apiKey";
  organisations: Organisation[];
}

export const SESSION = ["session"];

export function useSession() {
  return useQuery({
    queryKey: SESSION,
    queryFn: () => call<Session>("GET", "/console/session"),
    refetchInterval: 60_000,
  });
}

export function useMe(enabled: boolean) {
  return useQuery({ queryKey: ["me"], queryFn: () => call<Me>("GET", "/api/v2/me"), enabled });
}

export function signIn(token: string): Promise<void> {
  return call("POST", "/console/session", { token });
}

/** Ends the session; where the issuer has a page to sign out from, its URL. */
export async function signOut(): Promise<string | undefined> {
  const found = await call<{ logoutUrl?: string } | undefined>("DELETE", "/console/session");
  return found?.logoutUrl;
}
