"use strict";

// Where a provider sends the user back to. The window that opened this one asks for the result every half
// second ("hello"); without such a window the page has the code exchanged by itself.
(() => {
  const OPENER_MS = 10000;
  const CLOSED_CHECK_MS = 500;
  const LONGEST_QUOTE = 500;
  const LONGEST_QUERY = 8192;
  const AGAIN = "Go back to where you came from to try again. You can close this window.";

  const search = window.location.search;
  const given = new URLSearchParams(search);
  const state = given.get("state") || "";
  const code = given.get("code") || "";
  // OAuth 1.0 has other names for the same, and none for a refusal: "denied" and "oauth_problem" are in use.
  const oauthToken = given.get("oauth_token") || "";
  const oauthVerifier = given.get("oauth_verifier") || "";
  const denied = given.has("denied") ? "access_denied" : "";
  const problem = given.get("error") || given.get("oauth_problem") || denied;
  const brought = code ? { code } : oauthVerifier ? { oauthToken, oauthVerifier } : null;
  const base = window.location.pathname.replace(/\/+$/, "");
  const verdicts = new Map();
  let answered = false;
  let alone = false;
  const returning = takeReturn();

  const WORDS = {
    access_denied: "Access was not allowed, by you or by the system.",
    permission_denied: "Access was not allowed, by you or by the system.",
    user_refused: "Access was not allowed, by you or by the system.",
    invalid_scope: "The system does not know one of the permissions that were asked for.",
    invalid_request: "The system did not understand the request.",
    unauthorized_client: "The system does not let this application ask for access.",
    unsupported_response_type: "The system does not support this way to connect.",
    login_required: "You have to sign in to the system first.",
    consent_required: "The system needs your consent first.",
    interaction_required: "The system needs an answer from you first.",
    server_error: "The system has a problem of its own. Try again later.",
    temporarily_unavailable: "The system is not available right now. Try again later.",
  };

  // Text only, never markup: whatever a provider sends is shown as the letters that it is.
  function show(outcome, title, text, { quote = "", hint = "" } = {}) {
    document.getElementById("card").dataset.outcome = outcome;
    document.getElementById("title").textContent = title;
    document.getElementById("text").textContent = text;
    document.title = `${title} · Tieline`;
    for (const [id, value] of [["quote", quote], ["hint", hint]]) {
      const place = document.getElementById(id);
      place.textContent = value;
      place.hidden = !value;
    }
  }

  function cut(text) {
    return text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}…` : text;
  }

  // What an error answer says, without the name of the field that it is about, as a sentence.
  function reason(body) {
    const said = (body.fields && body.fields[0] && body.fields[0].message) || body.message || "";
    const text = said || "The connection could not be finished";
    return /[.!?]$/.test(text) ? text : `${text}.`;
  }

  function forget() {
    // The code has served: it does not stay in the address bar and the history.
    window.history.replaceState(null, "", window.location.pathname);
  }

  async function post(path, body) {
    const response = await fetch(base + path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      credentials: "same-origin", // the cookie that ties the authorisation to this browser
      cache: "no-store",
      signal: AbortSignal.timeout(60_000),
    });
    const text = await response.text();
    const found = text ? JSON.parse(text) : {};
    return { ok: response.ok, status: response.status, body: found };
  }

  async function mayAsk(origin) {
    if (!verdicts.has(origin)) {
      const { ok } = await post("/opener", { origin, state });
      verdicts.set(origin, ok);
    }
    return verdicts.get(origin);
  }

  // The console cannot be this window's opener: the other side could reach it then. It hears of the end by a channel of
  // our own origin, and has the window closed. The state is used up by now.
  function tellConsole(ok, message = "") {
    const channel = new BroadcastChannel("tieline-authorisation");
    channel.onmessage = ({ data }) => {
      if (data && data.close === state) window.close();
    };
    channel.postMessage({ finished: state, ok, message });
  }

  async function hear(event) {
    const message = event.data;
    const isHello = message && message.type === "hello" && message.payload && message.payload.state === state;
    if (!state || !isHello || event.source !== window.opener) return;
    try {
      if (!(await mayAsk(event.origin))) return;
    } catch {
      return; // it asks again in half a second
    }
    event.source.postMessage({ type: "response", payload: { search } }, event.origin);
    if (answered || alone) return;
    answered = true;
    forget();
    if (!problem) {
      show("done", "Almost done", "You have allowed access. Go on in the window that you came from.", {
        hint: "You can close this window.",
      });
    }
  }

  async function finish() {
    if (alone || answered) return;
    alone = true;
    forget();
    try {
      const query = search.length <= LONGEST_QUERY ? search : "";
      const { ok, status, body } = await post("", problem ? { state, error: problem } : { state, ...brought, query });
      if (problem) {
        tellConsole(false, document.getElementById("text").textContent);
        goOn(false);
        return;
      }
      if (status === 204) {
        tellConsole(false, WORDS.access_denied);
        show("failed", "Not connected", WORDS.access_denied, { hint: AGAIN });
        goOn(false);
        return;
      }
      if (ok) {
        tellConsole(true);
        show("done", "Connected", `“${body.connection}” is connected to ${body.system}.`, {
          hint: "You can close this window.",
        });
        goOn(true);
        return;
      }
      tellConsole(false, reason(body));
      show("failed", "Not connected", reason(body), {
        hint: AGAIN,
      });
      goOn(false);
    } catch {
      goOn(false);
      if (problem) return;
      show("failed", "Not connected", "The connection could not be finished: the service did not answer.", {
        hint: "Go back to where you came from and connect again.",
      });
    }
  }

  // The hosted page of end users has begun this in the same window (connect/files/returning.js), and says where it
  // goes on. Read once.
  function takeReturn() {
    try {
      const kept = JSON.parse(window.sessionStorage.getItem("tieline-connect") || "null");
      return kept && kept.state === state ? kept : null;
    } catch {
      return null;
    }
  }

  // To the page that has begun it: by closing its window, or by going back, where the token is still kept for it.
  function goOn(ok) {
    if (!returning) return;
    if (returning.close) {
      window.sessionStorage.removeItem("tieline-connect");
      if (ok) window.close();
      return;
    }
    if (!/^(\/[\w.~-]+)*\/connect\/[0-9A-Za-z]{26}\/[0-9a-f]{40}(\?[\w=&.~-]*)?$/.test(returning.back || "")) return;
    if (ok) {
      window.location.replace(returning.back);
      return;
    }
    const link = document.getElementById("back");
    link.href = returning.back;
    link.hidden = false;
  }

  function waitForOpener() {
    const until = Date.now() + OPENER_MS;
    const timer = window.setInterval(() => {
      if (answered) {
        window.clearInterval(timer);
      } else if (!window.opener || window.opener.closed || Date.now() >= until) {
        window.clearInterval(timer);
        finish();
      }
    }, CLOSED_CHECK_MS);
  }

  if (problem) {
    const said = given.get("error_description") || "";
    show("failed", "Not connected", WORDS[problem] || `The system answered “${cut(problem)}”.`, {
      quote: said ? `The system says: ${cut(said)}` : "",
      hint: AGAIN,
    });
  } else if (!state && brought) {
    // Installed at the provider: nobody here has begun it, so there is nothing that the code could be for.
    show("failed", "Almost connected", "You have installed the application, but no connection was started here.", {
      hint: "Open the application that uses this system and connect there. You may be asked for access again.",
    });
    return;
  } else if (!state) {
    show("failed", "Nothing to connect", "This page is where a system sends you back to after you have allowed access.", {
      hint: "Go back to where you came from and connect again.",
    });
    return;
  }
  window.addEventListener("message", hear);
  if (window.opener && !returning) {
    waitForOpener();
  } else {
    finish();
  }
})();
