"""What is written: JSON lines with their execution, and no secrets."""

import base64
import io
import json
import logging
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import jwt
import pytest

from tests.unit.runtime.external_systems import api_key, basic, environment
from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import parse
from tieline.errors import CodeError
from tieline.telemetry import logs, termination_message
from tieline.telemetry.logs import Log, current_execution
from tieline.telemetry.redaction import Redactor, current_redactor


@pytest.fixture
def redactor() -> Redactor:
    return Redactor()


@pytest.fixture
def written(redactor: Redactor) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level, sys.stdout, sys.stderr
    stream = io.StringIO()
    logs.configure(redactor, stream=stream)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:], sys.stdout, sys.stderr = before[0], before[2], before[3]
    root.setLevel(before[1])


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_entry_has_time_severity_message_execution_and_fields(written: io.StringIO) -> None:
    Log("01EXECUTION").warning("Stored 100% of\nthe orders", count=2, when=object)
    (entry,) = entries(written)
    assert entry["severity"] == "WARNING"
    assert entry["message"] == "Stored 100% of\nthe orders"
    assert entry["executionId"] == "01EXECUTION"
    assert entry["fields"]["count"] == 2
    assert entry["timestamp"].endswith("Z")


def test_a_field_that_is_no_unicode_does_not_lose_the_line(written: io.StringIO, redactor: Redactor) -> None:
    redactor.learn(["s3cr3t-of-the-shop"])
    Log("01EXECUTION").info("half \ud83d", path="/\udcff\u00e4", masked="s3cr3t-of-the-shop \udcff")
    assert logs.run_log is not None
    logs.run_log.write(webhook="orders", method="GET", path="/\udcff", status=200, seconds=0)
    first, second = (json.loads(line) for line in written.getvalue().encode().splitlines())
    assert (first["message"], first["fields"]) == ("half ?", {"path": "/?\u00e4", "masked": "*** ?"})
    assert second["httpRequest"]["requestUrl"] == "/?"


def test_signed_tokens_are_masked_by_their_form_and_what_only_looks_alike_is_not(redactor: Redactor) -> None:
    token = jwt.encode({"iss": "anybody"}, "k" * 32, algorithm="HS256")
    assert redactor(f"Authorization: Bearer {token}, and more") == "Authorization: Bearer ***, and more"
    assert redactor(json.dumps({"token": token})) == '{"token": "***"}'
    for text in ("eyJ is how they begin", "eyJhbGciOiJub25lIn0.short", "heyJude.and.so.on"):
        assert redactor(text) == text


def test_a_run_has_one_line_with_request_status_and_duration(
    written: io.StringIO, redactor: Redactor
) -> None:
    redactor.learn(["s3cr3t-path"])
    token = current_execution.set("01EXECUTION")
    assert logs.run_log is not None
    logs.run_log.write(webhook="hook", method="GET", path='/"ü/s3cr3t-path', status=204, seconds=0.0123)
    current_execution.reset(token)
    (entry,) = entries(written)
    assert abs(time.time() - datetime.fromisoformat(entry.pop("timestamp")).timestamp()) < 2
    assert entry == {
        "severity": "INFO",
        "message": "Ran webhook hook",
        "executionId": "01EXECUTION",
        "httpRequest": {
            "requestMethod": "GET",
            "requestUrl": '/"ü/***',
            "status": 204,
            "latency": "0.012300s",
        },
        "fields": {"webhook": "hook", "status": 204, "durationMs": 12.3},
    }


def test_secrets_of_the_runs_user_are_replaced_in_its_lines_only(written: io.StringIO) -> None:
    own = Redactor()
    own.learn(["key-of-ann"])
    token = current_redactor.set(lambda: own)
    Log("01EXECUTION").info("Key is key-of-ann")
    current_redactor.reset(token)
    Log("01EXECUTION").info("Key is key-of-ann")
    assert [entry["message"] for entry in entries(written)] == ["Key is ***", "Key is key-of-ann"]


def test_exceptions_are_logged_with_their_traceback_in_one_line(written: io.StringIO) -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        Log("01EXECUTION").exception("Failed")
    (entry,) = entries(written)
    assert entry["severity"] == "ERROR"
    assert "test_logs.py" in entry["error"]
    assert entry["error"].endswith("RuntimeError: boom")


def test_what_code_prints_and_logs_elsewhere_belongs_to_its_execution(
    written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest puts its own capture there after the fixtures.
    monkeypatch.setattr(sys, "stdout", logs.StdoutLogger(logging.INFO, Redactor()))
    token = current_execution.set("01EXECUTION")
    print("half", end=" ")
    print("and half")
    logging.getLogger("shop").info("Hello")
    current_execution.reset(token)
    assert [(entry["message"], entry["executionId"]) for entry in entries(written)] == [
        ("half and half", "01EXECUTION"),
        ("Hello", "01EXECUTION"),
    ]


def test_secrets_are_masked_in_all_the_forms_in_which_they_travel(
    written: io.StringIO, redactor: Redactor
) -> None:
    key, password = 'k"e\\y/ü 1&\n2', "pa55wörd"
    body = environment("http://x", api_key("header", key), basic("ann", password))
    Configuration(redactor=redactor, needed=True).publish(parse(body))
    token = base64.b64encode(f"ann:{password}".encode()).decode()
    Log("01E").info(f"Key {key} sent", key=key, header=f"Basic {token}", password=[password])
    Log("01E").info(f"repr {key!r}")
    Log("01E").info("GET /?key=k%22e%5Cy%2F%C3%BC%201%26%0A2")
    try:
        raise RuntimeError(key)
    except RuntimeError:
        Log("01E").exception("Failed")
    text = written.getvalue()
    for part in ("k%22", 'k\\"', "e\\\\y", password, token):
        assert part not in text
    assert entries(written)[0]["fields"] == {"key": "***", "header": "Basic ***", "password": ["***"]}


def test_rotated_secrets_stay_masked(written: io.StringIO, redactor: Redactor) -> None:
    configuration = Configuration(redactor=redactor, needed=True)
    for key in ("old-key-1", "new-key-2"):
        configuration.publish(parse(environment("http://x", api_key("header", key))))
    Log("01E").info("old-key-1 new-key-2")
    assert entries(written)[0]["message"] == "*** ***"


def test_the_termination_message_is_short_and_ends_with_the_innermost_lines() -> None:
    def deep(level: int) -> None:
        if level:
            deep_a(level - 1) if level % 2 else deep_b(level - 1)
        raise RuntimeError("ü" * 100)

    def deep_a(level: int) -> None:
        deep(level)

    def deep_b(level: int) -> None:
        deep(level)

    error = CodeError("main.py:3: RuntimeError")
    try:
        deep(40)
    except RuntimeError as cause:
        error.__cause__ = cause
    message = termination_message.message(error, Redactor())
    assert len(message.encode()) <= 2048
    assert message.startswith("main.py:3: RuntimeError\n\n")
    assert message.endswith("ü" * 100)


def test_every_line_of_a_run_names_the_activation_that_it_is_for(written: io.StringIO) -> None:
    tokens = current_execution.set("01EXECUTION"), logs.current_activation.set("01ACTIVATION")
    assert logs.run_log is not None
    Log("01EXECUTION").info("Stored")
    logs.run_log.write(webhook="orders", method="POST", path="/orders", status=200, seconds=0.1)
    current_execution.reset(tokens[0])
    logs.current_activation.reset(tokens[1])
    Log("01EXECUTION").info("Elsewhere")
    stored, ran, elsewhere = entries(written)
    assert stored["activationId"] == ran["activationId"] == "01ACTIVATION"
    assert "activationId" not in elsewhere
