"""A server that answers as the test says, and commands that run in the process of the test."""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import typer.main

from tieline.cli import main as command

ORGANISATION = "01JD3Y000000000000000000RG"
ID = "01JD3Y0000000000000000000A"
TOKEN = "token-that-must-not-be-shown"


class Server:
    """Answers as the test says; ``answer`` gets the path and returns status, body and headers."""

    def __init__(self) -> None:
        self.answer: Callable[[str], tuple[int, Any, dict[str, str]]] = lambda _: (200, {}, {})
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        self.methods: list[str] = []
        self.drip = False
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self) -> None:
                server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                server.methods.append(self.command)
                server.requests.append((self.path, dict(self.headers)))
                status, body, headers = server.answer(self.path.partition("?")[0])
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(content)
                    while server.drip:
                        self.wfile.write(b" ")

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Tests are quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Server:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drip = False
        self._server.shutdown()
        self._server.server_close()


_built = functools.cache(typer.main.get_command)


class Tieline:
    """Runs commands in this process, which builds all of them once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setattr(typer.main, "get_command", _built)
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        self._monkeypatch.setattr(sys, "argv", ["tieline", *arguments])
        self._capsys.readouterr()
        code = command._run()
        output, errors = self._capsys.readouterr()
        assert TOKEN not in output + errors
        return code, output, errors
