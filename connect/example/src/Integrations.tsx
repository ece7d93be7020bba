import { type Connect, type ConnectEvent, open } from "@tieline/connect";
import { useEffect, useRef, useState } from "react";

/** A page of a product: its server begins a connect session for the user who is signed in, and answers with the token. */
async function beginSession(): Promise<{ token: string; page: string }> {
  const response = await fetch("/connect-session", { method: "POST" });
  if (!response.ok) throw new Error("Your session could not be started. Try again.");
  return response.json();
}

export function Integrations() {
  const [events, setEvents] = useState<ConnectEvent["type"][]>([]);
  const [outcome, setOutcome] = useState("");
  const opened = useRef<Connect | null>(null);
  useEffect(() => () => opened.current?.close(), []);

  const asked = new URLSearchParams(window.location.search);
  const isPopup = asked.get("mode") === "popup";
  const connect = async () => {
    setOutcome("");
    try {
      const { token, page } = await beginSession();
      opened.current = open({
        token,
        page,
        mode: isPopup ? "popup" : "frame",
        language: asked.get("lang") ?? navigator.language,
        onEvent: (event) => setEvents((before) => [...before, event.type]),
      });
      setOutcome(await opened.current.closed);
    } catch (error) {
      setOutcome(error instanceof Error ? error.message : String(error));
    }
  };

  return (
    <main>
      <h1>Integrations</h1>
      <button type="button" onClick={connect}>
        Connect accounts
      </button>
      <p role="status">{outcome}</p>
      <ul aria-label="Events">
        {events.map((type, index) => (
          <li key={index}>{type}</li>
        ))}
      </ul>
    </main>
  );
}
