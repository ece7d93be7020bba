// Authorising at a system, in a window of its own or in this one. The callback page stores what comes back, in this
// browser alone: a cookie that the first hop sets ties the authorisation to it.
import { ApiProblem } from "./api.js";
import { detailsOf, planOf } from "./credentials.js";
import { keepReturn } from "./returning.js";

const SIZE = "popup,width=560,height=720";
const CHANNEL = "tieline-authorisation";
const POLL_MS = 2000;

/** Opens the window. Call it while a click is handled: later, browsers refuse. @returns {Window | null} */
export function openWindow() {
  return window.open(new URL("../authorise", window.location.href), "_blank", SIZE);
}

/**
 * Begins the authorisation of a connection's credential.
 * @param {import("./api.js").Api} api
 * @param {{ organisationId: string }} session
 * @param {any} connection
 * @param {any} part The item of `credentials`.
 * @param {string[]} scopes
 * @param {import("./inputs.js").Variable[]} variables
 * @returns {Promise<string>} Its state.
 */
export async function initialise(api, session, connection, part, scopes, variables) {
  const organisation = session.organisationId;
  const plan = planOf(part.authSchemeConfig);
  const scheme = detailsOf(part.authSchemeConfig);
  const path = `api/v2/o/${organisation}/systems/${connection.systemId}/${plan.authorise}/initialise`;
  const credential = { id: part.credential?.id ?? "", organisationId: organisation };
  if (plan.authorise === "oauth1") {
    return (await api.call("POST", path, { credential, authSchemeConfigId: scheme.id })).state;
  }
  const { url } = await api.call("POST", path, {
    credential,
    authorizeUrl: scheme.authorizeUrl ?? "",
    clientId: scheme.grant?.authorizationCode?.clientId ?? "",
    scopes,
    authSchemeConfigId: scheme.id,
    followScheme: true,
    variables: variables.length > 0 ? variables : undefined,
  });
  return new URL(url).searchParams.get("state") ?? "";
}

/**
 * Hands an authorisation to the window, as soon as that is there.
 * @param {Window} opened
 * @param {Promise<unknown>} ready
 * @param {string} token
 * @param {string} state
 */
export async function sendTo(opened, ready, token, state) {
  await ready;
  opened.postMessage({ type: "authorise", token, state }, window.location.origin);
}

/** Resolves when the window can be handed something. @param {Window | null} opened @returns {Promise<void>} */
export function readiness(opened) {
  return new Promise((resolve) => {
    /** @param {MessageEvent} event */
    const hear = (event) => {
      const isReady = event.data?.type === "authorise-ready";
      if (!opened || event.source !== opened || event.origin !== window.location.origin || !isReady) return;
      window.removeEventListener("message", hear);
      resolve();
    };
    window.addEventListener("message", hear);
  });
}

/**
 * Goes on in this window, and comes back to this page.
 * @param {import("./api.js").Api} api
 * @param {string} state
 */
export async function goThere(api, state) {
  const { url } = await api.call("POST", "oauth2/start", { token: api.token, state }, "same-origin");
  const target = new URL(url);
  if (target.protocol !== "https:" && target.protocol !== "http:") throw new Error("no URL");
  keepReturn({ state, back: window.location.pathname + window.location.search, token: api.token });
  window.location.assign(target);
}

/**
 * Resolves when the callback page has finished: it tells by a channel, and where the browser keeps that from a frame,
 * the connection itself shows it.
 * @param {string} state
 * @param {() => Promise<boolean>} isDone Asks the API.
 * @param {AbortSignal} signal
 * @returns {Promise<{ ok: boolean, message: string }>}
 */
export function finished(state, isDone, signal) {
  return new Promise((resolve, reject) => {
    const channel = new BroadcastChannel(CHANNEL);
    /** @type {number} */
    let timer = 0;
    const stop = () => {
      channel.close();
      window.clearTimeout(timer);
    };
    const poll = async () => {
      try {
        if (await isDone()) {
          stop();
          resolve({ ok: true, message: "" });
          return;
        }
      } catch (error) {
        if (error instanceof ApiProblem && error.status === 401) {
          stop();
          reject(error); // the session has ended
          return;
        }
        // Anything else is asked again.
      }
      if (!signal.aborted) timer = window.setTimeout(poll, POLL_MS);
    };
    channel.onmessage = ({ data }) => {
      if (data?.finished !== state) return;
      stop();
      resolve({ ok: data.ok === true, message: String(data.message ?? "") });
    };
    signal.addEventListener("abort", () => {
      stop();
      reject(signal.reason);
    });
    timer = window.setTimeout(poll, POLL_MS);
  });
}
