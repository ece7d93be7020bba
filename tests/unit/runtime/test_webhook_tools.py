"""Webhooks that their authors open to agents."""

from __future__ import annotations

from typing import Any

import pytest

from tieline import Integration


def test_a_webhook_says_what_it_does_as_a_tool() -> None:
    integration = Integration()

    @integration.webhook("refund", tool="Refunds an order.")
    def refund() -> None: ...

    @integration.webhook("plain")
    def plain() -> None: ...

    assert integration.webhooks["refund"].tool == "Refunds an order."
    assert integration.webhooks["plain"].tool is None


def test_a_tool_says_what_it_takes() -> None:
    integration = Integration()
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    integration.webhook("refund", tool="Refunds.", input_schema=schema)(lambda: None)
    assert integration.webhooks["refund"].input_schema == schema


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"input_schema": {}}, "input_schema is for agents, so it needs tool"),
        ({"tool": "Refunds.", "connection": "shop"}, "a tool has no connection"),
        ({"tool": "Refunds.", "input_schema": [1]}, "input_schema must be a dictionary"),
        ({"tool": "Refunds.", "input_schema": {"a": {1}}}, "input_schema must be plain JSON"),
        ({"tool": "Refunds.", "input_schema": {1: 1}}, "input_schema must be plain JSON"),
        ({"tool": "Refunds.", "input_schema": {"a": "x" * 4096}}, "at most 4,096 characters of JSON"),
    ],
)
def test_what_agents_could_not_use_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=f"Webhook 'refund': .*{told}"):
        Integration().webhook("refund", **options)


@pytest.mark.parametrize("tool", ["", "  ", "x" * 1001])
def test_a_tool_that_says_nothing_or_too_much_is_refused(tool: str) -> None:
    with pytest.raises(ValueError, match="Webhook 'refund': tool says what the webhook does, in 1 to 1,000"):
        Integration().webhook("refund", tool=tool)
