// The window in which an authorisation begins. It is a window of its own and not a frame, so that the browser keeps the
// cookie that ties the authorisation to it, also where cookies of third parties are blocked.
import { keepReturn } from "./returning.js";

/** @param {MessageEvent} event */
async function begin(event) {
  // Only the page that has opened this window, and only when it is one of ours.
  if (event.origin !== window.location.origin || event.source !== window.opener) return;
  const { type, token, state } = event.data ?? {};
  if (type !== "authorise" || typeof token !== "string" || typeof state !== "string") return;
  window.removeEventListener("message", begin);
  try {
    const response = await fetch(new URL("../oauth2/start", window.location.href), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token, state }),
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.timeout(60_000),
    });
    const body = await response.json();
    if (!response.ok) throw new Error(body.fields?.[0]?.message || body.message);
    const url = new URL(body.url);
    if (url.protocol !== "https:" && url.protocol !== "http:") throw new Error("The system's address is no URL.");
    keepReturn({ state, close: true });
    // The system that comes next has no way back to the page: it hears of the end from the API.
    window.opener = null;
    window.location.replace(url);
  } catch (error) {
    const place = document.getElementById("text");
    if (place) place.textContent = error instanceof Error ? error.message : String(error);
  }
}

window.addEventListener("message", begin);
window.opener?.postMessage({ type: "authorise-ready" }, window.location.origin);
