"""The web application of somebody who embeds connecting: one page, on an origin of its own."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.harness.processes.local_servers import HandlerServer, Quiet

_PAGE = """<!doctype html>
<title>Orders</title>
<h1>Orders</h1>
<button id="connect">Connect the shop</button>
<p id="status">not connected</p>
<script>
"use strict";
const settings = SETTINGS;
const status = (text) => { document.getElementById("status").textContent = text; };

async function call(method, path, body) {
  const response = await fetch(settings.api + "/api/v2/o/" + settings.organisation + path, {
    method,
    headers: { "Authorization": "Bearer " + settings.token, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

async function connect() {
  const popup = window.open("about:blank", "connect", "width=620,height=720");
  const { url } = await call("POST", "/systems/" + settings.system + "/oauth2/initialise", settings.initialise);
  const state = new URL(url).searchParams.get("state");
  const asking = setInterval(() => popup.postMessage({ type: "hello", payload: { state } }, settings.api), 500);
  window.addEventListener("message", async (event) => {
    if (event.origin !== settings.api || event.data.type !== "response") return;
    clearInterval(asking);
    const back = new URLSearchParams(event.data.payload.search);
    if (back.get("error")) return status("refused: " + back.get("error"));
    if (back.get("state") !== state) return status("another state came back");
    const credential = structuredClone(settings.credential);
    credential.credential.data = { oauth2Code: { code: back.get("code"), state } };
    const connection = { name: settings.name, credentials: [credential] };
    const body = { connectionTemplateId: settings.template, connection };
    const made = await call("POST", "/connections", body);
    status("connected: " + made.credentials[0].credential.type + " " + made.id);
  });
  popup.location = url;
}

document.getElementById("connect").addEventListener("click", () => {
  connect().catch((error) => status("failed: " + error.message));
});
</script>
"""


class FrontEnd(HandlerServer):
    """Serves the page on ``localhost``, which is another site than ``127.0.0.1``."""

    def __init__(self) -> None:
        pages = self._pages = dict[str, bytes]()

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = pages.get(self.path)
                self.send_response(200 if found is not None else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(found or b"")

        super().__init__(Handler)
        self.origin = f"http://localhost:{self.port}"

    def page(self, **settings: Any) -> str:
        """The URL of the page with these settings."""
        path = f"/{len(self._pages) + 1}"
        self._pages[path] = _PAGE.replace("SETTINGS", json.dumps(settings)).encode()
        return self.origin + path

    def stranger(self, url: str, state: str) -> str:
        """The URL of a page on an origin that nobody has allowed, which opens ``url`` and asks for what it got."""
        path = f"/{len(self._pages) + 1}"
        hello = json.dumps({"type": "hello", "payload": {"state": state}})
        script = (
            "const heard = []; addEventListener('message', (event) => heard.push(event.data));"
            f"connect.onclick = () => {{ const popup = open({json.dumps(url)}, 'connect', 'width=620,height=720');"
            f" setInterval(() => popup.postMessage({hello}, '*'), 200); }};"
        )
        self._pages[path] = (
            f'<!doctype html><button id="connect">Win</button><script>{script}</script>'.encode()
        )
        return self.origin.replace("localhost", "127.0.0.1") + path

    def link(self, url: str) -> str:
        """The URL of a page with a link that opens a window that knows nothing of its opener."""
        path = f"/{len(self._pages) + 1}"
        anchor = (
            f'<a id="connect" href="{url.replace("&", "&amp;")}" target="_blank" rel="noopener">Connect</a>'
        )
        self._pages[path] = f"<!doctype html><title>Orders</title>{anchor}".encode()
        return self.origin + path
