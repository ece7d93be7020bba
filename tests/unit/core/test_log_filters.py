"""Connections that were given up leave no error with a traceback in the logs; what else breaks does."""

from __future__ import annotations

import logging

import pytest

from tieline_core.log_filters import drop_tls_close_errors

FATAL = "Fatal error on SSL protocol\nprotocol: <uvloop.loop.SSLProtocol object at 0x7f>"
CLOSED = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")


@pytest.mark.parametrize(
    ("message", "error", "told"),
    [
        pytest.param(FATAL, CLOSED, False, id="given up"),
        pytest.param(FATAL, RuntimeError("no shared cipher"), True, id="something else of TLS"),
        pytest.param("Task exception was never retrieved", CLOSED, True, id="something else that is closed"),
        pytest.param("Executing took 2 seconds", None, True, id="no error"),
    ],
)
def test_only_the_goodbye_that_came_too_late_is_left_out(
    caplog: pytest.LogCaptureFixture, message: str, error: Exception | None, told: bool
) -> None:
    logger = logging.getLogger("asyncio.of-this-test")
    logger.addFilter(drop_tls_close_errors)
    logger.error(message, exc_info=error)
    assert bool(caplog.records) is told
