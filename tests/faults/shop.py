"""The external system: an OAuth server that takes each refresh token once, and what its tokens and API keys open.

A refresh token that comes a second time is refused and ends the whole log-in, as providers with reuse detection do.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

LIFETIME = 40
"""Seconds that an access token is good for: it is refreshed after half of them."""
CLIENT = "tieline"


@dataclass(frozen=True)
class TokenRequest:
    """A refresh token that came in: of which log-in, the how manieth of it, and from whom."""

    at: float
    family: int
    number: int
    sender: str
    good: bool


class Shop:
    """``mark`` is a part of every secret that it knows. ``sender_of`` tells who has a port of this machine."""

    def __init__(self, host: str, mark: str, sender_of: Callable[[int], str]) -> None:
        self.mark = mark
        self.journal: list[TokenRequest] = []
        self.ended: set[int] = set()
        self.effects: list[dict[str, Any]] = []
        """What the code of the project with events did, in the order in which it came."""
        self._current: dict[int, tuple[int, float]] = {}
        self._lock = threading.Lock()
        self._sender_of = sender_of

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0)).decode()
                if handler.path == "/effects":
                    self._record(json.loads(body))
                    handler._answer(200, {})
                    return
                sender = sender_of(handler.client_address[1])
                handler._answer(*self._token(parse_qs(body), sender))

            def do_GET(handler) -> None:  # noqa: N805
                bearer = handler.headers.get("Authorization", "").removeprefix("Bearer ")
                handler._answer(*self._who(handler.headers.get("X-Key", ""), bearer))

            def _answer(handler, status: int, said: dict[str, Any]) -> None:  # noqa: N805
                handler.send_response(status)
                handler.send_header("Content-Type", "application/json")
                handler.end_headers()
                handler.wfile.write(json.dumps(said).encode())

            def log_message(self, format: str, *arguments: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self.url = f"http://{host}:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def client_secret(self) -> str:
        return f"{self.mark}-client"

    def key(self, number: int) -> str:
        """An API key."""
        return f"{self.mark}-key-{number}"

    def log_in(self, family: int) -> dict[str, str]:
        """The first tokens of a new log-in; the access token is not good any more."""
        with self._lock:
            self._current[family] = (0, 0.0)
        return {
            "accessToken": f"{self.mark}-access-{family}-0",
            "refreshToken": f"{self.mark}-refresh-{family}-0",
        }

    def _record(self, effect: dict[str, Any]) -> None:
        with self._lock:
            self.effects.append({"at": time.monotonic(), **effect})

    def _token(self, form: dict[str, list[str]], sender: str) -> tuple[int, dict[str, Any]]:
        mark, _, rest = form.get("refresh_token", [""])[0].partition("-refresh-")
        family, number = (int(part) for part in rest.split("-")) if mark == self.mark else (0, 0)
        now = time.monotonic()
        with self._lock:
            current, _ = self._current.get(family, (-1, 0.0))
            good = number == current and family not in self.ended
            self.journal.append(TokenRequest(now, family, number, sender, good))
            if not good:
                self.ended.add(family)
                return 400, {"error": "invalid_grant"}
            self._current[family] = (number + 1, now + LIFETIME)
        return 200, {
            "access_token": f"{self.mark}-access-{family}-{number + 1}",
            "refresh_token": f"{self.mark}-refresh-{family}-{number + 1}",
            "token_type": "Bearer",
            "expires_in": LIFETIME,
        }

    def _who(self, key: str, bearer: str) -> tuple[int, dict[str, Any]]:
        mark, _, number = key.partition("-key-")
        if mark == self.mark:
            return 200, {"key": int(number)}
        mark, _, rest = bearer.partition("-access-")
        if mark == self.mark:
            family, issue = (int(part) for part in rest.split("-"))
            with self._lock:
                current, until = self._current.get(family, (-1, 0.0))
            if issue == current and time.monotonic() < until and family not in self.ended:
                return 200, {"family": family}
        return 401, {"error": "not for you"}
