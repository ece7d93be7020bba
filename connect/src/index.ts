const SOURCE = "tieline-connect";
const HELLO_MS = 500;
const READY_MS = 20_000;
/** How long the page may be silent once the frame has loaded: one that may not be shown never says a word. */
const SILENT_MS = 2000;
const TOKEN = /^tcs_([0-9A-Za-z]{26})_[\w-]{43}$/;

/** What the page tells. */
export type ConnectEvent =
  | { type: "ready" }
  | { type: "connected"; connectionId: string; connectionTemplateId: string }
  | { type: "disconnected"; connectionId: string; connectionTemplateId: string }
  | { type: "activated"; activationId: string }
  | { type: "ended" };

/** `done`: the user has finished. `closed`: the user or you have closed it. `ended`: the session has ended.
 * `failed`: the page was not there, or may not be shown by this origin; the browser's console says which. */
export type Outcome = "done" | "closed" | "ended" | "failed";

export interface Options {
  /** The token of the connect session. */
  token: string;
  /** Where the page is: `<TIELINE_PUBLIC_API_URL>/connect`. */
  page: string;
  /** `frame` (when left out): in your page. `popup`: in a window; call `open` while you handle a click. */
  mode?: "frame" | "popup";
  /** The page's language, such as `de`; the browser's when left out. */
  language?: string;
  /** The accessible name of the close button of the dialog. Default: "Close", or "Schließen" in German. */
  closeLabel?: string;
  /** The frame's title, for screen readers. */
  title?: string;
  /** Where the frame goes; a dialog over your page when left out. */
  container?: Element;
  /** Called with each event. */
  onEvent?: (event: ConnectEvent) => void;
}

export interface Connect {
  /** Closes it. */
  close(): void;
  /** Resolves when it is closed. */
  closed: Promise<Outcome>;
}

/**
 * Opens the page where the user of a connect session connects accounts.
 *
 * Throws TypeError for a token or a page that is none, and Error where the browser opens no window.
 */
export function open(options: Options): Connect {
  const page = new URL(options.page);
  const organisation = TOKEN.exec(options.token)?.[1];
  if (!organisation) throw new TypeError("token is not the token of a connect session");
  if (!isSecureContext) throw new TypeError("your page must be served by https (or from localhost)");
  const place = options.mode === "popup" ? inWindow() : inFrame(options);
  let end: (outcome: Outcome) => void = () => {};
  let isOpen = true;
  const closed = new Promise<Outcome>((resolve) => {
    end = (outcome) => {
      if (!isOpen) return;
      isOpen = false;
      removeEventListener("message", hear);
      clearInterval(timer);
      clearTimeout(late);
      clearTimeout(silent);
      place.remove();
      resolve(outcome);
    };
  });
  let isThere = false;
  let silent: ReturnType<typeof setTimeout> | undefined;
  const fail = () => {
    console.error(
      `The connect page may not be shown here: add ${location.origin} to allowedOrigins of the session`,
    );
    end("failed");
  };
  const hear = ({ data, origin, source }: MessageEvent) => {
    // From the page itself, and from nobody else who has a way to this window.
    if (origin !== page.origin || source !== place.window() || data?.source !== SOURCE) return;
    const { source: _, ...event } = data;
    clearTimeout(silent);
    isThere = true;
    if (event.type === "arrived") return;
    clearTimeout(late);
    if (event.type === "refused") fail();
    else if (event.type === "done") end("done");
    else if (event.type === "close") end("closed");
    else {
      options.onEvent?.(event);
      if (event.type === "ended") end("ended");
    }
  };
  const timer = setInterval(() => {
    if (place.isGone()) end("closed");
    else place.window()?.postMessage({ source: SOURCE, type: "hello" }, page.origin);
  }, HELLO_MS);
  // A window may be used without a word: pages with Cross-Origin-Opener-Policy cannot be reached.
  const late = options.mode === "popup" ? 0 : setTimeout(() => end("failed"), READY_MS);
  addEventListener("message", hear);
  place.onClose(() => end("closed"));
  place.onLoad(() => {
    clearTimeout(silent);
    if (!isThere) silent = setTimeout(fail, SILENT_MS);
  });
  urlOf(page, organisation, options).then(
    (url) => isOpen && place.go(url),
    () => end("failed"),
  );
  return { close: () => end("closed"), closed };
}

/** The page of the session: its path has a hash of the token, and only the fragment has the token. */
async function urlOf(page: URL, organisation: string, { token, language }: Options): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token)));
  const key = Array.from(hash.subarray(0, 20), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const url = new URL(page);
  url.pathname = `${page.pathname.replace(/\/+$/, "")}/${organisation.toUpperCase()}/${key}`;
  if (language) url.searchParams.set("lang", language);
  url.hash = token;
  return url.href;
}

interface Place {
  window(): Window | null;
  go(url: string): void;
  isGone(): boolean;
  onClose(listener: () => void): void;
  /** Calls the listener when the page has loaded, or what the browser shows in its place. */
  onLoad(listener: () => void): void;
  remove(): void;
}

function inWindow(): Place {
  const opened = window.open("about:blank", "_blank", "popup,width=600,height=800");
  if (!opened) throw new Error("the browser did not open a window: call open while you handle a click");
  return {
    window: () => opened,
    go: (url) => opened.location.replace(url),
    isGone: () => opened.closed,
    onClose: () => {},
    onLoad: () => {},
    remove: () => opened.close(),
  };
}

function closeButton(dialog: HTMLDialogElement, language = "", label = ""): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "✕";
  button.ariaLabel = label || (language.startsWith("de") ? "Schließen" : "Close");
  const place = { position: "absolute", top: "8px", right: "8px", width: "32px", height: "32px", padding: "0" };
  const look = { border: "0", borderRadius: "8px", background: "#8882", font: "16px system-ui", cursor: "pointer" };
  Object.assign(button.style, place, look);
  button.onclick = () => dialog.close();
  return button;
}

function inFrame({ container, language, closeLabel, title = "Connect your accounts" }: Options): Place {
  const frame = document.createElement("iframe");
  frame.title = title;
  frame.referrerPolicy = "no-referrer";
  Object.assign(frame.style, { border: "0", width: "100%", height: "100%", display: "block", colorScheme: "auto" });
  const dialog = container ? null : document.createElement("dialog");
  if (dialog) {
    dialog.setAttribute("aria-label", title);
    const size = { width: "min(38rem, 96vw)", height: "min(48rem, 92vh)", padding: "0", border: "0" };
    Object.assign(dialog.style, { ...size, borderRadius: "12px", overflow: "hidden" });
    dialog.append(closeButton(dialog, language, closeLabel));
    // The dialog has no padding: what is clicked of it itself is its backdrop.
    dialog.onclick = ({ target }) => target === dialog && dialog.close();
    document.body.append(dialog);
  }
  const outer = dialog ?? frame;
  let onLoad: (() => void) | null = null;
  (container ?? dialog)?.append(frame);
  dialog?.showModal();
  return {
    window: () => frame.contentWindow,
    // In place of the empty page, so that the back button of your page stays as it was.
    go: (url) => {
      frame.onload = onLoad;
      frame.contentWindow?.location.replace(url);
    },
    isGone: () => !outer.isConnected,
    onClose: (listener) => dialog?.addEventListener("close", listener),
    onLoad: (listener) => {
      onLoad = listener;
    },
    remove: () => outer.remove(),
  };
}
