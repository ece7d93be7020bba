"""Where the configuration comes from, and what happens while the API is away."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.harness.session.waiting import until
from tests.unit.runtime.external_systems import api_key, configured, environment
from tieline.configuration.api_source import ApiSource
from tieline.configuration.current import Configuration
from tieline.configuration.file_source import FileSource
from tieline.configuration.snapshot import parse
from tieline.errors import ConfigurationError
from tieline.telemetry.redaction import Redactor

# ruff: noqa: ASYNC240  (tiny files of the test's own)


class Api:
    """The internal endpoint: answers with ``body``, holds long polls until it changes."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = environment("http://x")
        self.version = 1
        self.status = 200
        self.raw: bytes | None = None
        self.changed = asyncio.Event()
        self.requests: list[web.Request] = []

    def change(self, body: dict[str, Any]) -> None:
        self.body, self.version = body, self.version + 1
        self.changed.set()

    def away(self, status: int = 503) -> None:
        self.status = status
        self.changed.set()

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        if self.status == 200 and request.headers.get("If-None-Match") == f'"{self.version}"':
            self.changed.clear()
            await self.changed.wait()
        if self.status != 200:
            return web.Response(status=self.status)
        if self.raw is not None:
            return web.Response(body=self.raw)
        return web.json_response(self.body, headers={"ETag": f'"{self.version}"'})


@pytest.fixture
async def api() -> AsyncIterator[tuple[Api, str]]:
    endpoint = Api()
    application = web.Application()
    application.router.add_get("/internal/v1/environment", endpoint.handle)
    server = TestServer(application)
    await server.start_server()
    yield endpoint, str(server.make_url("")).rstrip("/")
    endpoint.away()
    await server.close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("token-1\n")
    return file


@pytest.fixture
async def feed(api: tuple[Api, str], token: Path) -> AsyncIterator[Configuration]:
    configuration = Configuration(redactor=Redactor(), needed=True)
    source = ApiSource(api_url=api[1], token_file=token, first_backoff=0.02)
    task = asyncio.create_task(source.run(configuration.publish))
    yield configuration
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_api_is_asked_with_the_pods_token_and_changes_arrive_by_long_poll(
    api: tuple[Api, str], feed: Configuration, token: Path
) -> None:
    endpoint, _ = api
    assert not feed.obtained
    await until(lambda: feed.obtained)
    assert feed.current.connection("shop").base_url == "http://x"
    await until(lambda: len(endpoint.requests) == 2)
    token.write_text("token-2")
    endpoint.change(environment("http://y"))
    await until(lambda: feed.current.connection("shop").base_url == "http://y")
    await until(lambda: len(endpoint.requests) == 3)
    first, second, third = endpoint.requests
    assert first.headers["Authorization"] == "Bearer token-1"
    assert "If-None-Match" not in first.headers
    assert (second.headers["If-None-Match"], second.query["wait"]) == ('"1"', "25")
    assert third.headers["Authorization"] == "Bearer token-2"


async def test_what_was_last_known_is_kept_while_the_api_is_away_and_both_turns_are_logged_once(
    api: tuple[Api, str], feed: Configuration, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    endpoint, _ = api
    await until(lambda: len(endpoint.requests) == 2)
    endpoint.away()
    await until(lambda: len(endpoint.requests) >= 6)
    assert feed.current.connection("shop").base_url == "http://x"
    endpoint.status = 200
    endpoint.change(environment("http://y"))
    await until(lambda: feed.current.connection("shop").base_url == "http://y")
    messages = [record.message for record in caplog.records if record.name == "tieline.configuration"]
    assert len(messages) == 2
    assert "Lost the API" in messages[0]
    assert "The API is back" in messages[1]


@pytest.mark.parametrize("raw", [b"not json", b"[]", b'{"connections": {"shop": 1}}', b'{"connections": 1}'])
async def test_an_answer_that_is_no_configuration_changes_nothing(
    api: tuple[Api, str], feed: Configuration, raw: bytes
) -> None:
    endpoint, _ = api
    endpoint.raw = raw
    await until(lambda: len(endpoint.requests) >= 3)
    assert not feed.obtained
    endpoint.raw = None
    await until(lambda: feed.obtained)


async def test_a_missing_token_is_waited_for(api: tuple[Api, str], tmp_path: Path) -> None:
    configuration = Configuration(redactor=Redactor(), needed=True)
    source = ApiSource(api_url=api[1], token_file=tmp_path / "later", first_backoff=0.02)
    task = asyncio.create_task(source.run(configuration.publish))
    await asyncio.sleep(0.05)  # it looks several times, in vain
    assert not configuration.obtained
    (tmp_path / "later").write_text("token-3")
    await until(lambda: configuration.obtained)
    task.cancel()


async def test_a_connections_file_is_read_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "connections.json"
    file.write_text(json.dumps(environment("http://x")))
    configuration = configured()
    task = asyncio.create_task(FileSource(file, every=0.01).run(configuration.publish))
    await until(lambda: "shop" in configuration.current.connections)
    file.write_text("{")
    await until(lambda: "Keeping the last configuration" in caplog.text)
    assert configuration.current.connection("shop").base_url == "http://x"
    file.write_text(json.dumps(environment("http://y")))
    await until(lambda: configuration.current.connection("shop").base_url == "http://y")
    task.cancel()


async def test_a_connections_file_that_cannot_be_read_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"connections\.json: the file cannot be read"):
        await FileSource(tmp_path / "connections.json").run(lambda _: None)


def test_a_snapshot_does_not_show_secrets_when_it_is_printed() -> None:
    snapshot = parse(environment("http://x", api_key("header", "key-1234")))
    assert "key-1234" not in repr(snapshot)


def test_a_connection_that_lacks_something_does_not_take_the_others_with_it() -> None:
    body = environment("http://x", api_key("header"))
    body["connections"]["crm"] = {"id": "01C", "credentials": [{"id": "a"}]}
    snapshot = parse(body)
    assert snapshot.connection("shop").base_url == "http://x"
    assert snapshot.connection("crm").base_url == ""
