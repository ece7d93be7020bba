"""What commands about connectors say, and the names that they choose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.hostile_server import Server, Tieline
from tieline.cli.connector_code.files import ConnectorFiles
from tieline_core.connectors.descriptions.importer import import_description

DESCRIPTION = b"""
openapi: 3.0.3
info: {title: A, version: "1"}
paths: {/a: {get: {responses: {}}}}
"""


def test_an_import_prints_what_was_found(tieline: Tieline, server: Server, tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = import_description(DESCRIPTION).messages
    server.answer = lambda _: (201, {"actions": [{}], "messages": messages}, {})
    (tmp_path / "api.json").write_bytes(DESCRIPTION)
    _, _, errors = tieline("connectors", "import", "api.json", "--version", "1")
    assert messages
    for message in messages:
        assert f"{message['severity']}: {message['text']}" in errors
    assert "None" not in errors


@pytest.mark.parametrize(
    ("file", "content", "described"),
    [
        ("shop.graphqls", "type Query { a: Int }", {"format": "graphql", "name": "shop"}),
        ("answer.json", '{"data": {"__schema": {}}}', {"format": "graphql", "name": "answer"}),
        ("api.json", '{"openapi": "3.1.0"}', {"format": "openapi"}),
        ("api.yaml", '# "__schema"', {"format": "openapi"}),
    ],
)
def test_an_import_says_what_the_file_describes(
    tieline: Tieline, server: Server, tmp_path: Path, file: str, content: str, described: dict[str, str]
) -> None:
    server.answer = lambda _: (201, {"actions": [], "messages": []}, {})
    (tmp_path / file).write_text(content)
    tieline("connectors", "import", file, "--version", "1")
    sent = server.bodies[-1].decode()
    assert json.loads(sent[sent.index("{") : sent.index("}") + 1]) == {**described, "version": "1"}


def test_a_search_shows_the_kind_of_an_operation_of_graphql(tieline: Tieline, server: Server) -> None:
    found = {"connectorName": "Shop", "name": "orders", "method": "POST", "path": "", "summary": "All"}
    server.answer = lambda _: (200, {"items": [{**found, "graphql": "query"}], "totalCount": 1}, {})
    _, text, _ = tieline("connectors", "search", "orders")
    assert "query" in text
    assert "POST" not in text


@pytest.mark.parametrize(
    ("name", "stored"),
    [("k8s", "k8s"), ("Shop API v2", "shop_api_v2"), ("s3", "s3"), ("OAuth2Tokens", "o_auth2_tokens")],
)
def test_a_connectors_files_have_the_name_that_was_given(name: str, stored: str) -> None:
    assert ConnectorFiles.of(Path(), name).name == stored
