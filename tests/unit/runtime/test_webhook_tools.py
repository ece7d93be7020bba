"""Webhooks that their authors open to agents."""

from __future__ import annotations

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


@pytest.mark.parametrize("tool", ["", "  ", "x" * 1001])
def test_a_tool_that_says_nothing_or_too_much_is_refused(tool: str) -> None:
    with pytest.raises(ValueError, match="Webhook 'refund': tool says what the webhook does, in 1 to 1,000"):
        Integration().webhook("refund", tool=tool)
