import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useOrganisation } from "../app/organisation";
import { idOf } from "../lib/credentials";
import { safeUrl } from "../lib/links";
import { CONNECTION, type Connection, type Part } from "./connections";
import { type Send, useKey, useSend } from "./queries";

const SIZE = "popup,width=560,height=720";
/** Where our callback page tells that it has finished, and is told that it may close. */
const CHANNEL = "tieline-authorisation";

export type Authorising = { state: "idle" | "open" | "done" } | { state: "failed"; error: unknown };

/**
 * Sends the user to the other side in a window, and knows when the callback page has stored what came back. The window
 * has no way to this page (our Cross-Origin-Opener-Policy), so that the other side cannot reach it; the callback page,
 * which is ours, tells by a channel of our origin, and then the window closes.
 */
export function useAuthorisation(connection: Connection) {
  const { id } = useOrganisation();
  const client = useQueryClient();
  const send = useSend();
  const key = useKey();
  const [now, setNow] = useState<Authorising>({ state: "idle" });
  const waitingFor = useRef("");
  const since = useRef("");
  // Where the callback page has another origin than this one, the connection itself tells.
  const changed = now.state === "open" && since.current !== "" && connection.updatedAt > since.current;
  useEffect(() => {
    if (changed) setNow({ state: "done" });
  }, [changed]);
  useEffect(() => {
    const channel = new BroadcastChannel(CHANNEL);
    channel.onmessage = ({ data }: MessageEvent<{ finished?: string; ok?: boolean; message?: string }>) => {
      if (!waitingFor.current || data?.finished !== waitingFor.current) return;
      waitingFor.current = "";
      if (data.ok) channel.postMessage({ close: data.finished });
      const message = data.message || "The system did not allow access.";
      setNow(data.ok ? { state: "done" } : { state: "failed", error: new Error(message) });
      void client.invalidateQueries({ queryKey: key(CONNECTION, { connection_id: connection.id }) });
    };
    return () => channel.close();
  }, [client, key, connection.id]);

  const begin = async (part: Part) => {
    setNow({ state: "open" });
    // Opened at once: after an answer the browser would take it for something that nobody asked for.
    const popup = window.open("about:blank", "_blank", SIZE);
    try {
      const { url, state } = await initialise(send, id, connection, part);
      waitingFor.current = state;
      since.current = connection.updatedAt;
      const target = safeUrl(url);
      if (!target) throw new Error("The scheme's authorizeUrl is not an http or https URL.");
      if (!popup) throw new Error("The browser did not open a window: allow windows for this page, and try again.");
      popup.location.href = target;
    } catch (error) {
      popup?.close();
      setNow({ state: "failed", error });
    }
  };
  return { now, begin };
}

async function initialise(send: Send, organisation: string, connection: Connection, part: Part) {
  const at = { system_id: connection.systemId ?? "" };
  const credential = { id: part.credential?.id ?? "", organisationId: organisation };
  const scheme = part.authSchemeConfig;
  if (scheme?.type === "oauth1") {
    const body = { credential, authSchemeConfigId: idOf(scheme) };
    return send("post", "/systems/{system_id}/oauth1/initialise", { at, body });
  }
  const oauth2 = scheme?.oauth2;
  const asked = await send("post", "/systems/{system_id}/oauth2/initialise", {
    at,
    body: {
      credential,
      authorizeUrl: oauth2?.authorizeUrl ?? "",
      clientId: oauth2?.grant.authorizationCode?.clientId ?? "",
      scopes: oauth2?.defaultScopes ?? [],
      authSchemeConfigId: scheme ? idOf(scheme) : undefined,
      followScheme: true,
    },
  });
  return { url: asked.url, state: new URL(asked.url).searchParams.get("state") ?? "" };
}
