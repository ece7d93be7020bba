"""The protocol's own client speaks with the endpoint: in the current version, and in those with a handshake."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from mcp import Client
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import Field

from tieline_api import errors
from tieline_api.agents import transport
from tieline_api.agents.tools import MAX_TEXT, Arguments, Result, Tool
from tieline_api.agents.transport import answer
from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import Permission
from tieline_api.cluster import revisions
from tieline_api.cluster.organisations import Organisation
from tieline_api.http.operation import Call, ProxyRequest

MODES = ("auto", "legacy")
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def message(method: str = "tools/list", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": {}, **more}


class Greeting(Arguments):
    """Whom to greet."""

    name: str = Field(max_length=20)
    """The name."""
    times: int = 1
    """How often."""


async def greet(_call: Any, given: Greeting) -> Result:
    if given.name == "nobody":
        raise errors.not_found("person", given.name)
    if given.name == "refused":
        return Result(content={"status": 409}, failed=True)
    return Result(content={"text": f"Hello {given.name}" * given.times}, noted=(("object", "x"),))


async def burst(_call: Any, _given: Greeting) -> Result:
    raise RuntimeError("with a s3cret in it")


TOOLS = (
    Tool(
        name="greet",
        description="Greet somebody.",
        arguments=Greeting,
        permissions=(Permission("list", "connections"),),
        run=greet,
    ),
    Tool(name="burst", description="Burst.", arguments=Greeting, permissions=(), run=burst),
)


class Access:
    """Lets everybody in but those who are named so."""

    async def check(
        self, caller: Caller, _organisation: Organisation, needed: tuple[Permission, ...]
    ) -> None:
        if caller.username == "stranger" and needed:
            raise errors.forbidden(f"You may not {needed[0]}")


def call_of(user: str, headers: Mapping[str, str], body: bytes) -> Call[Any, Any]:
    return Call(
        platform=SimpleNamespace(access=Access()),  # type: ignore[arg-type]
        organisation=Organisation(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", namespace="acme"),
        caller=Caller(username=user),
        path={},
        query=None,
        body=None,
        raw=body,
        proxied=ProxyRequest(method="POST", path="", headers=CIMultiDictProxy(CIMultiDict(headers))),
    )


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Where the endpoint is; its path names the caller."""

    async def handle(request: web.Request) -> web.Response:
        call = call_of(request.match_info["user"], request.headers, await request.read())
        return await answer(call, TOOLS)

    app = web.Application()
    app.router.add_post("/{user}", handle)
    async with TestServer(app) as server:
        yield str(server.make_url("/ann"))


def said(result: Any) -> tuple[bool, str]:
    (content,) = result.content
    return result.is_error, content.text


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_finds_the_tools_and_calls_one(url: str, mode: Any) -> None:
    async with Client(url, mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["greet", "burst"]
        assert tools[0].input_schema["required"] == ["name"]
        assert tools[0].input_schema["properties"]["name"]["description"] == "The name."
        failed, text = said(await client.call_tool("greet", {"name": "Ann"}))
    assert (failed, json.loads(text)) == (False, {"text": "Hello Ann"})


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("greet", {"name": "nobody"}, "There is no person"),
        ("greet", {"name": "refused"}, '{"status":409}'),
        ("greet", {}, "name: Field required"),
        ("greet", {"name": "Ann", "secret": "hidden-value"}, "secret: Extra inputs are not permitted"),
        ("greet", {"name": "Ann", "times": MAX_TEXT}, "more than 64 KiB"),
        ("dance", {}, "There is no such tool; there are: greet, burst"),
    ],
)
async def test_what_goes_wrong_is_told_to_the_agent(url: str, tool: str, given: Any, told: str) -> None:
    async with Client(url) as client:
        failed, text = said(await client.call_tool(tool, given))
    assert failed
    assert told in text
    assert "hidden-value" not in text


async def test_who_lacks_a_permission_is_told_which(url: str) -> None:
    async with Client(url.replace("ann", "stranger")) as client:
        assert said(await client.call_tool("greet", {"name": "Ann"})) == (
            True,
            "You may not list connections",
        )


async def test_a_defect_of_the_platform_says_nothing_of_itself(url: str) -> None:
    async with Client(url) as client:
        with pytest.raises(Exception, match=r"(?i)internal") as caught:
            await client.call_tool("burst", {"name": "Ann"})
    assert "s3cret" not in str(caught.value)


async def test_the_log_has_a_line_of_each_call_without_what_was_given(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with Client(url) as client:
            await client.call_tool("greet", {"name": "Ann-given"})
            await client.call_tool("greet", {"name": "nobody"})
    lines = [record.__dict__ for record in caplog.records if record.message == "An agent called a tool"]
    assert [(line["user"], line["tool"], line["status"]) for line in lines] == [
        ("ann", "greet", 200),
        ("ann", "greet", 404),
    ]
    assert lines[0]["object"] == "x"
    assert "Ann-given" not in str(lines)


@pytest.mark.parametrize(
    ("user", "given", "status", "code"),
    [
        ("stranger", {"name": "Ann"}, 403, "forbidden"),
        ("ann", {"name": "nobody"}, 404, "not_found"),
        ("ann", {"secret": "hidden-value"}, 422, "validation_failed"),
        ("ann", {"name": "Ann"}, 0, ""),
        ("ann", {"name": "refused"}, 0, ""),
    ],
)
async def test_the_audit_hears_of_a_tool_that_does_not_only_read(
    user: str, given: dict[str, Any], status: int, code: str
) -> None:
    (reads, _) = TOOLS
    writes = revisions.recording()
    tool = replace(reads, reads=False, about=("name", "people"))
    for one in (reads, tool):
        params = {"name": "greet", "arguments": given}
        body = json.dumps(message("tools/call", id=1, params=params)).encode()
        headers = {"Content-Type": "application/json", "Mcp-Protocol-Version": "2025-06-18"}
        await answer(call_of(user, headers, body), (one,))
        assert (writes.tool is None) is one.reads
    assert writes.tool == revisions.ToolCall(tool="greet", kind="people", object="", status=status, code=code)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"[" * 10_000, b'{"id":' + b"9" * 9999],
)
@pytest.mark.parametrize("version", ["", "2025-06-18", "2026-07-28", "1999-01-01"])
async def test_what_is_no_message_is_answered_with_a_status(url: str, body: bytes, version: str) -> None:
    headers = {**ACCEPT, **({"Mcp-Protocol-Version": version} if version else {})}
    async with ClientSession() as session, session.post(url, data=body, headers=headers) as response:
        assert 400 <= response.status < 500
        assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["subscriptions/listen", "resources/list", "logging/setLevel", "no/such"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_what_the_endpoint_does_not_offer_is_answered_and_never_waited_for(
    url: str, method: str, version: str
) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    sent = message(method, id=1, params={"_meta": meta})
    headers = {**ACCEPT, "Mcp-Protocol-Version": version, "Mcp-Method": method}
    async with ClientSession() as session, session.post(url, json=sent, headers=headers) as response:
        said = await response.text()
    assert response.status == 406 or json.loads(said)["error"]


async def test_a_tool_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_call: Any, _given: Greeting) -> Result:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(transport, "MOST_SECONDS", 0.05)
    tool = Tool(name="never", description="Never ends.", arguments=Greeting, permissions=(), run=never)
    said = message("tools/call", id=1, params={"name": "never", "arguments": {"name": "Ann"}})
    with pytest.raises(errors.ApiError) as caught:
        await answer(call_of("ann", ACCEPT, json.dumps(said).encode()), (tool,))
    assert caught.value.status == 504


async def post(url: str, body: Any, **headers: str) -> tuple[int, str]:
    sent = {**ACCEPT, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with ClientSession() as session, session.post(url, json=body, headers=sent) as response:
        return response.status, await response.text()


@pytest.mark.parametrize(
    ("body", "code", "identifier"),
    [
        (b"{", -32700, None),
        (b"[" * 10_000, -32700, None),
        ([], -32600, None),
        (7, -32600, None),
        (message(id=1.5), -32600, None),
        (message(id=1.0), -32600, None),
        (message(id=True), -32600, None),
        (message(id=None), -32600, None),
        (message(id="a", jsonrpc="1.0"), -32600, "a"),
        ({"id": 7, "method": "tools/list"}, -32600, 7),
        ({"jsonrpc": "2.0", "id": 7}, -32600, 7),
        ({"jsonrpc": "2.0", "id": 7, "method": 8}, -32600, 7),
        (message(id=7, params=["hidden-value"]), -32600, 7),
        (message("tools/call", id=7, params={"name": ["hidden-value"]}), -32602, 7),
        (message("no/such", id=7), -32601, 7),
    ],
    ids=str,
)
@pytest.mark.parametrize("version", ["", "2025-06-18"])
async def test_a_malformed_message_gets_its_error_code(
    url: str, body: Any, code: int, identifier: Any, version: str
) -> None:
    headers = {**ACCEPT, **({"Mcp-Protocol-Version": version} if version else {})}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with ClientSession() as session, session.post(url, data=data, headers=headers) as response:
        said = await response.json()
    assert response.status == (200 if code in (-32601, -32602) else 400)
    assert (said["error"]["code"], said["id"]) == (code, identifier)
    assert "hidden-value" not in str(said)
    assert "pydantic" not in str(said)


@pytest.mark.parametrize(
    "asked", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2030-01-01", "", None]
)
async def test_no_version_is_negotiated_that_needs_batches(url: str, asked: Any) -> None:
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    status, said = await post(url, message("initialize", id=1, params=params))
    if asked is None:
        assert json.loads(said)["error"]["code"] == -32602
        return
    assert status == 200
    expected = asked if asked in ("2025-06-18", "2025-11-25") else "2025-11-25"
    assert json.loads(said)["result"]["protocolVersion"] == expected


async def test_a_batch_is_refused_whole(url: str) -> None:
    call = message("tools/call", id=2, params={"name": "greet", "arguments": {"name": "Ann"}})
    status, said = await post(url, [message(id=1), call])
    assert 400 <= status < 500
    assert "Hello" not in said


async def test_a_notification_gets_no_answer(url: str, caplog: pytest.LogCaptureFixture) -> None:
    assert await post(url, message("notifications/initialized")) == (202, "")
    # A call without an id is a notification: nobody would learn what came of it, so nothing is called.
    call = message("tools/call", params={"name": "greet", "arguments": {"name": "Ann"}})
    with caplog.at_level(logging.INFO):
        status, said = await post(url, call)
    assert status < 500
    assert "Hello" not in said
    assert "An agent called a tool" not in caplog.text


@pytest.mark.parametrize("accept", ["", "*/*", "text/html", "text/event-stream", "application/json;q=0"])
async def test_the_answer_is_json_whatever_the_client_accepts(url: str, accept: str) -> None:
    status, said = await post(url, message(id=1), Accept=accept)
    assert status == 200
    assert [tool["name"] for tool in json.loads(said)["result"]["tools"]] == ["greet", "burst"]


@pytest.mark.parametrize(
    "version", ["1999-01-01", "2024-11-05", "2025-03-26", "2099-01-01", "x" * 5000, "\xff"]
)
async def test_versions_that_the_endpoint_does_not_speak_are_refused(url: str, version: str) -> None:
    status, said = await post(url, message(id=1), Mcp_Protocol_Version=version)
    assert status == 400
    assert json.loads(said)["error"]["data"]["supported"] == ["2025-06-18", "2025-11-25", "2026-07-28"]
    assert "version" in said.lower()


async def test_another_content_type_is_refused(url: str) -> None:
    async with ClientSession() as session:
        headers = {**ACCEPT, "Content-Type": "text/plain"}
        async with session.post(url, data=json.dumps(message(id=1)), headers=headers) as response:
            assert response.status in (400, 415)
