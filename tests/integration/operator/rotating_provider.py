"""A provider of tokens on this machine, which takes each refresh token once only."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

from tests.harness.processes.local_servers import HandlerServer, Quiet


class RotatingProvider(HandlerServer):
    """Knows the refresh token ``first``; what it was asked with is in ``asked``."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._good = "first"
        self._lock = threading.Lock()
        provider = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                status, said = provider.answer(parse_qs(body))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(said).encode())

        super().__init__(Handler)
        self.token_url = f"{self.url}/token"

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
