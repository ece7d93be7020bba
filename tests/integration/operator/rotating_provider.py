"""A provider of tokens on this machine, which takes each refresh token once only."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


class RotatingProvider:
    """Knows the refresh token ``first``; what it was asked with is in ``asked``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []
        self._good = "first"
        self._lock = threading.Lock()

    def answer(self, form: dict[str, list[str]]) -> tuple[int, dict[str, object]]:
        with self._lock:
            given = form.get("refresh_token", [""])[0]
            self.asked.append(given)
            if given != self._good:
                return 400, {"error": "invalid_grant"}
            self._good = f"rotated-{len(self.asked)}"
            token = f"access-{len(self.asked)}"
            return 200, {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": 86400,
                "refresh_token": self._good,
            }


@contextmanager
def rotating_provider() -> Iterator[RotatingProvider]:
    """Serves until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            status, said = provider.answer(parse_qs(body))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = RotatingProvider(f"http://127.0.0.1:{server.server_address[1]}/token")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
