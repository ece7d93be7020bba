"""An external system that repeats what it was sent: the worst neighbour for secrets."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Echo:
    """Answers every request with its own method, URL, headers and body; paths with ``/boom`` with 500.

    What has ``/once`` in its path is 401 for the first bearer token that comes, as if that had been revoked.
    """

    def __init__(self) -> None:
        self.heard: list[str] = []
        revoked: dict[str, str] = {}

        class Handler(BaseHTTPRequestHandler):
            def _answer(handler) -> None:  # noqa: N805
                length = int(handler.headers.get("Content-Length") or 0)
                body = handler.rfile.read(length).decode("utf-8", "replace")
                said = json.dumps(
                    {
                        "request": f"{handler.command} {handler.path}",
                        "headers": dict(handler.headers),
                        "body": body,
                    },
                    ensure_ascii=False,
                )
                self.heard.append(said)
                authorization = handler.headers.get("Authorization", "")
                status = 500 if "/boom" in handler.path else 200
                if (
                    "/once" in handler.path
                    and revoked.setdefault(handler.path, authorization) == authorization
                ):
                    status = 401
                handler.send_response(status)
                handler.send_header("Content-Type", "application/json")
                handler.end_headers()
                handler.wfile.write(said.encode())

            do_GET = do_POST = do_PUT = _answer  # noqa: N815

            def log_message(self, format: str, *arguments: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
