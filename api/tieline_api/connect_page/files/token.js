// The session's token: it comes in the fragment, which no server sees, and leaves the address bar at once.
import { takeReturn } from "./returning.js";

/** The token of this page, or "". @returns {string} */
export function takeToken() {
  const given = window.location.hash.slice(1);
  const kept = takeReturn();
  const here = window.location.pathname + window.location.search;
  if (!given) return kept?.back === here ? (kept.token ?? "") : "";
  window.history.replaceState(null, "", here);
  return given;
}

/** Whether the page stands in a frame of another page. */
export const isFramed = window.parent !== window;
