"""Log lines keep their keys and order; connections that were given up leave no error with a traceback."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from tieline_core.json_logging import JsonFormatter, drop_tls_close_errors

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


START = '{"timestamp":"2026-01-01T10:00:00.123Z","severity":"WARNING",'
ERROR = '"exception":"Traceback (most recent call last):\\n'


class Key:
    """As an operator's key of an object."""

    def __str__(self) -> str:
        return "acme/a"


@pytest.mark.parametrize(
    ("message", "arguments", "extra", "rest"),
    [
        pytest.param("Said %s", ("a",), {}, '"message":"Said a","logger":"a.b"}', id="arguments"),
        pytest.param("Ünïcode\n", (), {}, '"message":"Ünïcode\\n","logger":"a.b"}', id="line feeds"),
        pytest.param(
            "Answered",
            (),
            {"status": 200, "milliseconds": 0.1, "user": "", "object": Key(), "told": None, "dry": True},
            '"message":"Answered","logger":"a.b","status":200,"milliseconds":0.1,"user":"","object":"acme/a",'
            '"told":null,"dry":true}',
            id="extra fields",
        ),
        pytest.param({"a": "%s"}, (), {}, '"message":"{\'a\': \'%s\'}","logger":"a.b"}', id="not a text"),
        pytest.param(
            "Applied",
            (),
            {"by": {"a": 1}, "k8s_ref": {"x": 1}, "k8s_skip": True, "settings": object(), "taskName": "t"},
            '"message":"Applied","logger":"a.b","by":{"a":1}}',
            id="objects that kopf attaches",
        ),
        pytest.param(
            "Said",
            (),
            {"stack_info": "s3cr3t", "exc_text": "s3cr3t"},
            '"message":"Said","logger":"a.b"}',
            id="cached",
        ),
    ],
)
def test_a_line_has_the_same_keys_in_the_same_order_as_ever(
    message: Any, arguments: tuple[object, ...], extra: dict[str, object], rest: str
) -> None:
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, message, arguments, None)
    record.__dict__.update(extra, created=1767261600.123)
    assert JsonFormatter().format(record) == START + rest


def test_a_traceback_is_the_last_key_and_goes_when_a_filter_removes_it() -> None:
    try:
        raise ValueError("s3cr3t")
    except ValueError:
        record = logging.LogRecord("a.b", logging.WARNING, "", 0, "Failed", (), sys.exc_info())
    record.__dict__.update(kind="Project", created=1767261600.123)
    logging.Formatter().format(record)
    line = JsonFormatter().format(record)
    assert line.startswith(START + '"message":"Failed","logger":"a.b","kind":"Project",' + ERROR)
    assert line.endswith('ValueError: s3cr3t"}')
    record.exc_info = None
    assert "s3cr3t" not in JsonFormatter().format(record)


def test_quiet_loggers_write_warnings_only() -> None:
    program = """
import logging, sys
from tieline_core.json_logging import set_up
set_up("INFO", sys.stderr, quiet=("a",))
logging.getLogger("a").info("one")
logging.getLogger("a").warning("two")
logging.getLogger("b").debug("three")
logging.getLogger("b").info("four")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert [json.loads(line)["message"] for line in done.stderr.splitlines()] == ["two", "four"]


def test_a_field_that_is_no_unicode_does_not_lose_the_line() -> None:
    record = logging.LogRecord("t", logging.INFO, __file__, 1, "Got %s", ("half \ud83d",), None)
    record.path, record.own = "/\udcff\u00e4", {"\udcff": object}
    line = JsonFormatter().format(record)
    shown = json.loads(line.encode())
    assert (shown["message"], shown["path"]) == ("Got half ?", "/?\u00e4")
    assert list(shown["own"]) == ["?"]
