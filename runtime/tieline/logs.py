"""Log lines: one JSON object a line, with the execution they belong to, without secrets.

The fields are those of the API's log entries: timestamp, severity, message, error, httpRequest, fields.
What code prints becomes such lines too, so that ``print`` is a fair way to look at something.
"""

import io
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TextIO

from tieline.redaction import Redactor

current_execution: ContextVar[str | None] = ContextVar("tieline_execution", default=None)
"""The id of the execution that the current task or thread works for."""

current_activation: ContextVar[str | None] = ContextVar("tieline_activation", default=None)
"""The id of the activation that it runs for, once that is known."""

current_redactor: ContextVar[Callable[[], Redactor] | None] = ContextVar("tieline_redactor", default=None)
"""Knows secrets that only the current task or thread has to do with: those of the run's user."""

_run_logger = logging.getLogger("tieline.run")
_PRINTED_LINE_LIMIT = 64 * 1024
# Made once: json.dumps makes a new encoder on each call that is given options.
_encode = json.JSONEncoder(ensure_ascii=False, skipkeys=True, default=str).encode


@lru_cache(maxsize=256)
def _name(text: str) -> str:
    """The text as it stands between JSON's quotation marks; names come again in every line."""
    return _encode(text)[1:-1]


def _of_activation() -> str:
    activation = current_activation.get()
    return f'"activationId": "{_name(activation)}", ' if activation else ""


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON, with all known secrets replaced."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6]
            + "Z",
            "severity": record.levelname,
            "message": record.getMessage(),
        }
        execution = getattr(record, "execution_id", None) or current_execution.get()
        if execution:
            entry["executionId"] = execution
        if activation := current_activation.get():
            entry["activationId"] = activation
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        for name in ("httpRequest", "fields"):
            if value := getattr(record, name, None):
                entry[name] = value
        if record.name not in {"root", "tieline", _run_logger.name}:
            entry["logger"] = record.name
        line = self._redact(_encode(entry))
        own = current_redactor.get()
        return own()(line) if own else line


class RunLines:
    """Writes the line of each run: what JsonFormatter would write, at a third of the cost of a LogRecord."""

    def __init__(self, handler: "logging.StreamHandler[TextIO]", redact: Redactor) -> None:
        self._handler = handler
        self._redact = redact
        self._second = 0
        self._prefix = ""

    def write(self, *, webhook: str, method: str, path: str, status: int, seconds: float) -> None:
        """One line about a run that has ended now, with the current task's execution id."""
        if not _run_logger.isEnabledFor(logging.INFO):
            return
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second, self._prefix = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        # The path is the only part that a caller chooses; looking through all of the line costs ten times as much.
        path = self._redact(path)
        if own := current_redactor.get():
            path = own()(path)
        line = (
            f'{{"timestamp": "{self._prefix}.{int((now - second) * 1000):03d}Z", "severity": "INFO", '
            f'"message": "Ran webhook {_name(webhook)}", "executionId": "{current_execution.get()}", {_of_activation()}'
            f'"httpRequest": {{"requestMethod": "{_name(method)}", "requestUrl": {_encode(path)}, '
            f'"status": {status}, "latency": "{seconds:.6f}s"}}, '
            f'"fields": {{"webhook": "{_name(webhook)}", "status": {status}, "durationMs": {seconds * 1000:.3f}}}}}\n'
        )
        # As logging does it: a line that cannot be written must not fail the run.
        handler = self._handler
        handler.acquire()
        try:
            handler.stream.write(line)
            handler.stream.flush()
        except (OSError, ValueError):
            return
        finally:
            handler.release()


class Log:
    """The log of one execution. Named arguments become the entry's ``fields``.

    >>> def store(log: Log, order: dict[str, object]) -> None:
    ...     try:
    ...         log.info("Stored the order", order_id=order["id"])
    ...     except KeyError:
    ...         log.exception("The order has no id")
    >>> async def orders(ctx: Context, request: Request) -> None:
    ...     store(ctx.log, await request.json())
    >>> run(orders, json={"id": "A-1"}).status
    204
    """

    __slots__ = ("_execution_id",)

    def __init__(self, execution_id: str) -> None:
        self._execution_id = execution_id

    def debug(self, message: str, /, **fields: Any) -> None:
        """Detail that is written only at log level DEBUG."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        """What happened."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        """What someone should look at."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        """What failed."""
        self._write(logging.ERROR, message, fields)

    def exception(self, message: str, /, **fields: Any) -> None:
        """What failed, with the traceback of the exception that is being handled."""
        self._write(logging.ERROR, message, fields, exc_info=True)

    def _write(self, level: int, message: str, fields: Mapping[str, Any], *, exc_info: bool = False) -> None:
        if not _run_logger.isEnabledFor(level):
            return
        extra = {"execution_id": self._execution_id, "fields": fields}
        # As an argument, so that a "%" in the message stays one.
        _run_logger.log(level, "%s", message, exc_info=exc_info, extra=extra)


class PrintedLines(io.TextIOBase):
    """Stands in for ``sys.stdout`` or ``sys.stderr`` and turns each printed line into a log entry."""

    def __init__(self, level: int) -> None:
        self._level = level
        # Lines are put together per thread, so that two threads never share one.
        self._pending = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, rest = (getattr(self._pending, "text", "") + text).split("\n")
        if len(rest) > _PRINTED_LINE_LIMIT:
            lines, rest = [*lines, rest], ""
        self._pending.text = rest
        for line in lines:
            if line.strip():
                _run_logger.log(self._level, "%s", line)
        return len(text)


run_lines: RunLines | None = None
"""Where lines of runs go, once logging is configured."""


def configure(redact: Redactor, *, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logging, and what code prints, to ``stream`` (standard output) as JSON lines."""
    global run_lines  # noqa: PLW0603  (logging is the process's, and so is this part of it)
    handler: logging.StreamHandler[TextIO] = logging.StreamHandler(stream or sys.stdout)
    run_lines = RunLines(handler, redact)
    handler.setFormatter(JsonFormatter(redact))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    sys.stdout = PrintedLines(logging.INFO)
    sys.stderr = PrintedLines(logging.WARNING)


def leave_out_unused() -> None:
    """Stop logging from collecting what no line shows (the Logging HOWTO, "Optimization"); process-wide."""
    logging._srcfile = None
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
