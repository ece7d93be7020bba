"""Receives a system's redirect on this machine (RFC 8252)."""

import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tieline.cli.exit_codes import CommandError

CONSENT_SECONDS = 600
"""As long as the platform keeps an authorisation."""
_PATH = "/callback"
_PAGE = (
    b"<!doctype html><meta charset=utf-8><title>Tieline</title>"
    b"<p>You can close this window and return to the terminal."
)


class OAuthRedirect:
    """A server on a free port of the loopback interface, until the block ends."""

    def __enter__(self) -> Self:
        received: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                known = parts.path == _PATH
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                if known:
                    self.wfile.write(_PAGE)
                    received.append(parts.query)

            def log_message(self, *_: Any) -> None:
                """The code must not reach the terminal."""

        self._received = received
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._server.timeout = 1
        self.url = f"http://127.0.0.1:{self._server.server_port}{_PATH}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def code(
        self, state: str, *, parameter: str = "code", errors: Sequence[str] = ("error",)
    ) -> tuple[str, str]:
        """The code that comes with this state, and the query that has it; other requests are ignored.

        ``parameter`` is the code's, ``errors`` are those of a denial. Raises CommandError.
        """
        end = time.monotonic() + CONSENT_SECONDS
        while time.monotonic() < end:
            self._server.handle_request()
            while self._received:
                text = self._received.pop(0)
                query = parse_qs(text)
                if query.get("state") != [state]:
                    continue
                if error := next(filter(None, map(query.get, errors)), None):
                    reason = query.get("error_description", error)[0]
                    raise CommandError(f"The provider refused access: {reason}")
                if code := query.get(parameter):
                    return code[0], text
        raise CommandError("Nobody signed in within ten minutes; run the command again")
