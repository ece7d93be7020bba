// What the page tells the product that shows it in a frame or has opened it: to that product's exact origin alone.
import { isFramed } from "./token.js";

const SOURCE = "tieline-connect";
const MOST = 50;

/** Tells the product what happens, once it has said who it is. */
export class Product {
  /** @type {{ window: Window, origin: string } | null} */
  #there = null;
  /** @type {object[]} */
  #waiting = [];
  /** @type {((origin: string) => boolean) | null} */
  #isAllowed = null;
  /** @type {MessageEvent[]} */
  #early = [];

  constructor() {
    window.addEventListener("message", (event) => this.#hear(event));
  }

  /** @param {string[] | null} origins Those of the session. null where it is not known (any more): a frame stands in
   * none but its pages, as the policy of the answer says; a window tells nobody. */
  allow(origins) {
    this.#isAllowed = (origin) => (origins ? origins.includes(origin) : isFramed);
    for (const event of this.#early.splice(0)) this.#hear(event);
  }

  /** Tells the other window that the page is there, and nothing else: who that is, is not known yet. */
  arrive() {
    const other = isFramed ? window.parent : window.opener;
    other?.postMessage({ source: SOURCE, type: "arrived" }, "*");
  }

  /** @param {string} type @param {Record<string, unknown>} [more] */
  tell(type, more = {}) {
    const message = { source: SOURCE, type, ...more };
    if (this.#there) this.#there.window.postMessage(message, this.#there.origin);
    else if (this.#waiting.length < MOST) this.#waiting.push(message);
  }

  /** @param {MessageEvent} event */
  #hear(event) {
    const from = isFramed ? window.parent : window.opener;
    if (!from || event.source !== from || event.data?.source !== SOURCE || event.data.type !== "hello") return;
    if (!this.#isAllowed) {
      if (this.#early.length === 0) this.#early.push(event);
      return;
    }
    if (!this.#isAllowed(event.origin)) {
      from.postMessage({ source: SOURCE, type: "refused" }, event.origin);
      return;
    }
    if (this.#there?.origin === event.origin) return; // it says hello again and again
    this.#there = { window: from, origin: event.origin };
    this.tell("ready");
    for (const message of this.#waiting.splice(0)) from.postMessage(message, event.origin);
  }
}
