"""What commands about connectors say, and the names that they choose."""

from __future__ import annotations

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
    ("name", "stored"),
    [("k8s", "k8s"), ("Shop API v2", "shop_api_v2"), ("s3", "s3"), ("OAuth2Tokens", "o_auth2_tokens")],
)
def test_a_connectors_files_have_the_name_that_was_given(name: str, stored: str) -> None:
    assert ConnectorFiles.of(Path(), name).name == stored
