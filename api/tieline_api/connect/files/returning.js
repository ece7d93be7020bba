// What the callback page does when it has finished an authorisation that began in this window: kept in the window's own
// storage, which no other window sees, and read once.
const KEY = "tieline-connect";

/**
 * @typedef {object} Returning
 * @property {string} state The state of the authorisation.
 * @property {boolean} [close] Whether the window closes.
 * @property {string} [back] The path that it goes back to.
 * @property {string} [token] The token that the page there goes on with.
 */

/** @param {Returning} returning */
export function keepReturn(returning) {
  window.sessionStorage.setItem(KEY, JSON.stringify(returning));
}

/** What was kept, which is forgotten by this. @returns {Returning | null} */
export function takeReturn() {
  try {
    const kept = window.sessionStorage.getItem(KEY);
    window.sessionStorage.removeItem(KEY);
    return kept ? JSON.parse(kept) : null;
  } catch {
    return null; // a frame whose storage the browser blocks
  }
}
