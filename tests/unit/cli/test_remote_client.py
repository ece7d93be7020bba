"""What commands do with the API's answers: exit codes, pauses, warnings; against a server that answers as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.remote import client as module
from tieline.cli.remote.client import ApiError, Client
from tieline.cli.remote.contexts import Context

ORGANISATION = "01JD3Y000000000000000000RG"
TOKEN = "token-that-must-not-be-shown"


class FakeApi:
    """Answers in order, and remembers the requests."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any, dict[str, str]]] = []
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                api.requests.append((self.command, self.path, dict(self.headers), body))
                status, content, headers = api.answers.pop(0)
                text = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(text)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Tests are quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.client = Client(
            Context(
                name="test",
                url=f"http://127.0.0.1:{self.server.server_port}",
                organisation=ORGANISATION,
                token=TOKEN,
            )
        )

    def answer(self, status: int, content: Any = b"", **headers: str) -> None:
        self.answers.append(
            (status, content, {name.replace("_", "-"): value for name, value in headers.items()})
        )


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(module.time, "sleep", found.append)
    return found


@pytest.fixture
def api(waits: list[float]) -> Iterator[FakeApi]:
    fake = FakeApi()
    threading.Thread(target=fake.server.serve_forever, args=(0.01,), daemon=True).start()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, ExitCode.NOT_SIGNED_IN),
        (403, ExitCode.NOT_SIGNED_IN),
        (404, ExitCode.NOT_FOUND),
        (409, ExitCode.FAILED),
        (422, ExitCode.FAILED),
        (500, ExitCode.UNAVAILABLE),
    ],
)
def test_each_refusal_has_its_exit_code_and_the_api_s_message(
    api: FakeApi, status: int, code: ExitCode
) -> None:
    fields = [{"field": "name", "message": "must not be blank"}]
    api.answer(status, {"code": "x", "message": "Not like this", "fields": fields})
    with pytest.raises(ApiError) as refused:
        api.client.get("projects")
    assert refused.value.code is code
    assert str(refused.value) == "Not like this\n  name: must not be blank"
    assert TOKEN not in str(refused.value)


def test_a_read_is_repeated_after_the_pause_that_the_api_asks_for(api: FakeApi, waits: list[float]) -> None:
    api.answer(503, {"code": "unavailable", "message": "Away"}, Retry_After="3")
    api.answer(429, {"code": "too_many_requests", "message": "Slower"}, Retry_After="2")
    api.answer(200, {"projects": []})
    assert api.client.get("projects") == {"projects": []}
    assert waits == [3, 2]


def test_a_write_that_may_have_been_done_is_not_repeated(api: FakeApi, waits: list[float]) -> None:
    api.answer(503, {"code": "unavailable", "message": "Away"})
    with pytest.raises(ApiError) as refused:
        api.client.request("POST", "projects", body={"name": "x"})
    assert refused.value.code is ExitCode.UNAVAILABLE
    assert waits == []
    assert len(api.requests) == 1


def test_a_long_pause_is_told_instead_of_waited_for(api: FakeApi, waits: list[float]) -> None:
    api.answer(429, {"code": "too_many_requests", "message": "Tomorrow"}, Retry_After="86400")
    with pytest.raises(ApiError, match="Tomorrow"):
        api.client.get("projects")
    assert waits == []


def test_a_redirect_does_not_take_the_token_elsewhere(api: FakeApi) -> None:
    api.answer(302, b"", Location=f"http://127.0.0.1:{api.server.server_port}/elsewhere")
    with pytest.raises(ApiError):
        api.client.get("projects")
    assert [path for _, path, _, _ in api.requests] == [f"/api/v2/o/{ORGANISATION}/projects"]


@pytest.mark.parametrize("content", [b"<html>Welcome</html>", b"{"])
def test_another_server_at_the_address_is_reported(api: FakeApi, content: bytes) -> None:
    api.answer(200, content)
    with pytest.raises(CommandError, match="is the address right"):
        api.client.get("projects")


def test_an_api_that_is_not_there_is_tried_again_and_told(waits: list[float]) -> None:
    context = Context(name="x", url="http://127.0.0.1:9", organisation=ORGANISATION, token=TOKEN)
    with pytest.raises(CommandError, match="cannot be reached") as refused:
        Client(context).get("projects")
    assert refused.value.code is ExitCode.UNAVAILABLE
    assert waits == [1, 2, 4]
    assert TOKEN not in str(refused.value)


def test_warnings_of_the_api_are_shown_without_what_could_control_the_terminal(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.answer(200, {}, Warning='299 - "Unknown field \\"colour\\"", 299 - "second"')
    api.client.get("projects")
    shown = capsys.readouterr().err
    assert 'Unknown field "colour"' in shown
    assert "second" in shown


def test_a_list_is_read_page_by_page_up_to_the_limit(api: FakeApi) -> None:
    api.answer(200, {"items": [{"id": number} for number in range(200)], "next": "c1"})
    api.answer(200, {"items": [{"id": number} for number in range(200, 250)], "next": "c2"})
    found = list(api.client.pages("runs", limit=250, status="dead"))
    assert [item["id"] for item in found] == list(range(250))
    assert [path.partition("?")[2] for _, path, _, _ in api.requests] == [
        "status=dead&first=200",
        "status=dead&first=50&after=c1",
    ]


def test_a_read_after_a_write_sees_the_write_at_any_replica(api: FakeApi) -> None:
    api.answer(201, {"id": "1"}, X_Tieline_Revision="42")
    api.answer(200, {})
    api.client.request("POST", "projects", body={"name": "x"})
    api.client.get("projects")
    assert api.requests[1][2]["X-Tieline-Revision"] == "42"
    assert api.requests[1][2]["X-API-Key"] == TOKEN
