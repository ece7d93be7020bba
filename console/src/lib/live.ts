import type { Change } from "./changes";
import { noteContact } from "./contact";
import { eventReader, pauseMs } from "./eventStream";

/** What the stream delivers: changes, or that some may have been missed. */
export type Update = { type: "changes"; changes: Change[] } | { type: "missed" };

/** What the tabs of a browser send each other. */
interface Message {
  organisation: string;
  update?: Update;
  /** Whether the tab that owns the connection receives changes. Without it, a tab polls. */
  live?: boolean;
  /** A new tab asks whether the stream is live. */
  asksLive?: boolean;
}

const CHANNEL = "tieline-live";
const RETRY_MS = 1000;
/** The API sends something every 15 seconds. */
const SILENT_MS = 40_000;
const HIDDEN_MS = 10_000;
const REFUSED_MS = 60_000;

let live = false;
const listeners = new Set<() => void>();

function setLive(found: boolean): void {
  if (live === found) return;
  live = found;
  for (const each of listeners) each();
}

export function subscribeLive(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether this tab receives changes as they happen. */
export function isLive(): boolean {
  return live;
}

/**
 * Subscribes to the changes of an organisation while the page is visible. All tabs of a browser share one connection: the
 * tab that holds a lock owns it, and broadcasts its updates. Returns a function that unsubscribes.
 */
export function follow(
  organisation: string,
  onUpdate: (update: Update) => void,
  onSignedOut: () => void,
): () => void {
  const channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(CHANNEL);
  let turn: AbortController | undefined;
  let leads = false;
  let silent: ReturnType<typeof setTimeout> | undefined;
  let hidden: ReturnType<typeof setTimeout> | undefined;

  const broadcast = (message: Omit<Message, "organisation">) =>
    channel?.postMessage({ organisation, ...message } satisfies Message);
  const onState = (live: boolean) => {
    clearTimeout(silent);
    setLive(live);
    if (live) silent = setTimeout(() => setLive(false), SILENT_MS);
  };
  const onMessage = ({ data }: MessageEvent<Message>) => {
    if (data?.organisation !== organisation || !turn) return;
    if (data.asksLive && leads) broadcast({ live: isLive() });
    if (leads) return;
    if (data.live !== undefined) onState(data.live);
    if (data.update) onUpdate(data.update);
  };
  channel?.addEventListener("message", onMessage);

  const lead = async (signal: AbortSignal) => {
    leads = true;
    try {
      await listen(organisation, signal, {
        onUpdate: (update) => {
          onUpdate(update);
          broadcast({ update });
        },
        onState: (live) => {
          onState(live);
          broadcast({ live });
        },
        onSignedOut,
      });
    } finally {
      leads = false;
      broadcast({ live: false });
    }
  };
  const begin = () => {
    if (turn) return;
    turn = new AbortController();
    const { signal } = turn;
    const locks = channel && navigator.locks;
    if (!locks) {
      void lead(signal);
      return;
    }
    broadcast({ asksLive: true });
    locks.request(`${CHANNEL}:${organisation}`, { signal }, () => lead(signal)).catch(() => {});
  };
  const end = () => {
    turn?.abort();
    turn = undefined;
    onState(false);
  };
  const onVisibility = () => {
    clearTimeout(hidden);
    if (document.visibilityState === "visible") begin();
    else hidden = setTimeout(end, HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", onVisibility);
  onVisibility();
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    clearTimeout(hidden);
    end();
    channel?.close();
  };
}

interface Subscriber {
  onUpdate: (update: Update) => void;
  onState: (live: boolean) => void;
  onSignedOut: () => void;
}

/** Keeps a connection open, and reconnects until it is aborted. */
async function listen(organisation: string, signal: AbortSignal, subscriber: Subscriber): Promise<void> {
  let failures = 0;
  let hint = RETRY_MS;
  while (!signal.aborted) {
    let least = 0;
    const response = await connect(organisation, signal).catch(() => undefined);
    if (signal.aborted) return;
    if (response?.ok && response.body) {
      const onBegin = () => {
        failures = 0;
        subscriber.onUpdate({ type: "missed" });
      };
      const onRetry = (ms: number) => {
        hint = ms;
      };
      // A connection that ends is opened again.
      await read(response.body, signal, { ...subscriber, onBegin, onRetry }).catch(() => {});
    } else if (response) {
      // The page checks whether its session has ended.
      if (response.status === 401) subscriber.onSignedOut();
      // Too many streams, no permission, or an API without streams: the page polls meanwhile.
      const asked = Number(response.headers.get("Retry-After")) * 1000 || 0;
      least = response.status < 500 ? Math.max(asked, REFUSED_MS) : asked;
      await response.body?.cancel();
    } else {
      noteContact(false);
    }
    if (signal.aborted) return;
    subscriber.onState(false);
    await pause(Math.max(pauseMs(failures, hint), least), signal);
    failures += 1;
  }
}

async function connect(organisation: string, signal: AbortSignal): Promise<Response> {
  const waiting = new AbortController();
  const timer = setTimeout(() => waiting.abort(), SILENT_MS);
  try {
    // EventSource cannot send the header by which the API knows the console's own requests.
    return await fetch(`/api/v2/o/${organisation}/watch`, {
      headers: { "X-Tieline-Console": "1", Accept: "text/event-stream" },
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.any([signal, waiting.signal]),
    });
  } finally {
    clearTimeout(timer);
  }
}

async function read(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
  subscriber: Subscriber & { onBegin: () => void; onRetry: (ms: number) => void },
): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const take = eventReader((data) => {
    const event = JSON.parse(data) as { type: string; changes?: Change[] };
    if (event.type === "begin") subscriber.onBegin();
    if (event.type === "reset") subscriber.onUpdate({ type: "missed" });
    if (event.type === "changes" && event.changes) subscriber.onUpdate({ type: "changes", changes: event.changes });
  }, subscriber.onRetry);
  let silent: ReturnType<typeof setTimeout> | undefined;
  try {
    while (!signal.aborted) {
      clearTimeout(silent);
      silent = setTimeout(() => void reader.cancel(), SILENT_MS);
      const { done, value } = await reader.read();
      if (done) return;
      noteContact(true);
      subscriber.onState(true);
      take(decoder.decode(value, { stream: true }));
    }
  } finally {
    clearTimeout(silent);
    void reader.cancel().catch(() => {});
  }
}

/** Waits, and no longer than until the network is back. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}

const SIGNED_OUT = "tieline-signed-out";

/** Notifies the other tabs of this browser that the session has ended. */
export function announceSignOut(): void {
  if (typeof BroadcastChannel === "undefined") return;
  const channel = new BroadcastChannel(SIGNED_OUT);
  channel.postMessage("");
  channel.close();
}

/** Calls the listener when another tab has signed out. Returns a function that unsubscribes. */
export function onSignedOutElsewhere(listener: () => void): () => void {
  if (typeof BroadcastChannel === "undefined") return () => {};
  const channel = new BroadcastChannel(SIGNED_OUT);
  channel.addEventListener("message", listener);
  return () => channel.close();
}
