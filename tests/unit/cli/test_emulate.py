"""``tieline emulate`` plays providers for an author."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.unit.cli.commands import tieline
from tieline.cli.exit_codes import ExitCode

# What shells start in the background ignores it, and so does what that starts.
HEEDING_CTRL_C = """
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
from tieline.cli.main import main

main()
"""


@contextmanager
def emulating(*arguments: str) -> Iterator[list[str]]:
    """The lines that the command writes before it serves; it ends with the block, as by Ctrl-C."""
    command = [sys.executable, "-c", HEEDING_CTRL_C, "emulate", *arguments, "--port=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if lines[-2:-1] and line == "\n":
                break
        yield lines
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)


def test_the_printed_connection_reaches_the_provider() -> None:
    with emulating("slack", "shopify") as lines:
        connections = yaml.safe_load("".join(lines))["connections"]
        slack, shopify = connections["slack"], connections["shopify"]
        assert _get(f"{slack['baseUrl']}/auth.test", Authorization=_bearer(slack))
        own = shopify["credentials"][0]["data"]["accessToken"]
        assert _get(f"{shopify['baseUrl']}/shop.json", **{"X-Shopify-Access-Token": own})
        assert any("webhook secret" in line for line in lines)


def test_an_unknown_provider_is_named_with_similar_ones() -> None:
    ended = tieline("emulate", "slac")
    assert ended.returncode == ExitCode.NOT_FOUND
    assert ": slack" in ended.stderr


def _bearer(connection: dict[str, Any]) -> str:
    return f"Bearer {connection['credentials'][0]['data']['accessToken']}"


def _get(url: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
        content: bytes = answer.read()
        return content
