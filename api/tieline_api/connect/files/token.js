// The session's token: it comes in the fragment, which no server sees, and leaves the address bar at once. The window's
// own storage keeps it for a reload of this page until the session has ended or the user is done.
import { takeReturn } from "./returning.js";

const KEY = "tieline-connect-session";

const here = () => window.location.pathname + window.location.search;

/** The token of this page, or "". @returns {string} */
export function takeToken() {
  const given = window.location.hash.slice(1);
  const kept = takeReturn();
  if (given) window.history.replaceState(null, "", here());
  const token = given || (kept?.back === here() ? kept.token : "") || keptToken();
  keepToken(token);
  return token;
}

function keptToken() {
  try {
    const { path, token } = JSON.parse(window.sessionStorage.getItem(KEY) ?? "{}");
    return path === window.location.pathname && typeof token === "string" ? token : "";
  } catch {
    return ""; // a frame whose storage the browser blocks
  }
}

/** @param {string} token */
function keepToken(token) {
  if (!token) return;
  try {
    window.sessionStorage.setItem(KEY, JSON.stringify({ path: window.location.pathname, token }));
  } catch {
    // A reload needs the link again.
  }
}

/** Forgets the token that a reload would go on with. */
export function forgetToken() {
  try {
    window.sessionStorage.removeItem(KEY);
  } catch {
    // Nothing was kept.
  }
}

/** Whether the page stands in a frame of another page. */
export const isFramed = window.parent !== window;
