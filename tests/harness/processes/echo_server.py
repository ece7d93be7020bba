"""An external system that repeats what it was sent: the worst neighbour for secrets."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler

from tests.harness.processes.local_servers import HandlerServer, Quiet


class Echo(HandlerServer):
    """Answers every request with its own method, URL, headers and body; paths with ``/boom`` with 500.

    What has ``/once`` in its path is 401 for the first bearer token that comes, as if that had been revoked.
    """

    def __init__(self) -> None:
        self.heard: list[str] = []
        revoked: dict[str, str] = {}

        class Handler(Quiet, BaseHTTPRequestHandler):
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

        super().__init__(Handler)
