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
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TextIO

from tieline.errors import without_ssl_default
from tieline.telemetry.redaction import Redactor, replaced

current_execution: ContextVar[str | None] = ContextVar("tieline_execution", default=None)
"""The id of the execution that the current task or thread works for."""

current_activation: ContextVar[str | None] = ContextVar("tieline_activation", default=None)
"""The id of the activation that it runs for, once that is known."""

_run_logger = logging.getLogger("tieline.run")
_PRINTED_LINE_LIMIT = 64 * 1024
_MASKED = frozenset({"message", "error", "httpRequest", "fields", "logger"})
"""Parts of an entry that code or callers choose."""
# Made once: json.dumps makes a new encoder on each call that is given options.
_json = json.JSONEncoder(ensure_ascii=False, skipkeys=True, default=str).encode


def _encode(value: Any) -> str:
    """As JSON that UTF-8 can hold: lone surrogates, for which the line would be lost, become question marks."""
    text = _json(value)
    return text if text.isascii() else text.encode(errors="replace").decode()


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
            entry["error"] = without_ssl_default(self.formatException(record.exc_info))
        for name in ("httpRequest", "fields"):
            if value := getattr(record, name, None):
                entry[name] = value
        if record.name not in {"root", "tieline", _run_logger.name}:
            entry["logger"] = record.name
        line = _encode(entry)
        return line if not self._redact.suspects(line) else self._masked(line)

    def _masked(self, line: str) -> str:
        """The line with the texts in it masked, each by itself: what is around them stays JSON, and keeps its names."""
        entry = json.loads(line)
        for name in _MASKED & entry.keys():
            entry[name] = self._redact.masked(entry[name])
        return _encode(entry)


class RunLogWriter:
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
        path = self._redact.for_run(path)
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


class _LineBuffer:
    """What was printed since the last line break: a list of parts, so that many small ones cost no more than one."""

    __slots__ = ("parts", "redact", "size")

    def __init__(self, redact: Redactor) -> None:
        self.redact = redact
        self.parts: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.size += len(text)

    def take(self) -> str:
        text = "".join(self.parts)
        self.parts, self.size = [], 0
        return text


_Unfinished = dict[tuple[int, int], _LineBuffer]
"""What one run prints, by level and thread: neither runs nor threads share a line."""
_of_process: _Unfinished = {}
_printing: ContextVar[_Unfinished] = ContextVar("tieline_printing", default=_of_process)


def begin_run(execution_id: str) -> None:
    """From now on what the current task logs and prints belongs to this execution."""
    current_execution.set(execution_id)
    _printing.set({})


def end_run() -> None:
    """Write what the run has printed without a line break at its end."""
    printing = _printing.get()
    if printing is _of_process:
        return
    for (level, _), unfinished in list(printing.items()):
        if unfinished.size:
            _print_lines(level, unfinished.redact.for_run(unfinished.take()))
    printing.clear()


def _print_lines(level: int, text: str) -> None:
    for line in text.split("\n"):
        if line.strip():
            _run_logger.log(level, "%s", line)


class StdoutLogger(io.TextIOBase):
    """Stands in for ``sys.stdout`` or ``sys.stderr`` and turns each printed line into a log entry.

    A secret may have several lines, and come in parts. So texts are looked through before they are split, and line
    breaks within a secret do not end a line.
    """

    def __init__(self, level: int, redact: Redactor) -> None:
        self._level = level
        self._redact = redact

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        printing, key = _printing.get(), (self._level, threading.get_ident())
        unfinished = printing.get(key)
        if unfinished is None:
            unfinished = printing[key] = _LineBuffer(self._redact)
        unfinished.add(text)
        if "\n" in text:
            self._end_lines(unfinished)
        elif unfinished.size > _PRINTED_LINE_LIMIT + self._redact.reach:
            self._cut(unfinished)
        return len(text)

    def _end_lines(self, unfinished: _LineBuffer) -> None:
        text = unfinished.take()
        end = text.rindex("\n")
        if text.find("\n") == end:
            # One line, which is masked when it is written.
            unfinished.add(text[end + 1 :])
            _print_lines(self._level, text[:end])
            return
        spans = self._redact.spans(text)
        for begin, beyond in sorted(spans, reverse=True):
            if begin <= end < beyond:
                end = text.rfind("\n", 0, begin)
        if end >= 0:
            done = [span for span in spans if span[0] < end]
            _print_lines(self._level, replaced(text[:end], done))
        if rest := text[end + 1 :]:
            unfinished.add(rest)
            if unfinished.size > _PRINTED_LINE_LIMIT + self._redact.reach:
                self._cut(unfinished)

    def _cut(self, unfinished: _LineBuffer) -> None:
        """End a line that is too long, before anything that may turn out to be the beginning of a secret."""
        text = unfinished.take()
        end = len(text) - self._redact.reach
        spans = self._redact.spans(text)
        for begin, beyond in sorted(spans):
            if begin < end < beyond:
                end = beyond
        _print_lines(self._level, replaced(text[:end], [span for span in spans if span[0] < end]))
        if rest := text[end:]:
            unfinished.add(rest)


run_log: RunLogWriter | None = None
"""Where lines of runs go, once logging is configured."""


def configure(redact: Redactor, *, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logging, and what code prints, to ``stream`` (standard output) as JSON lines."""
    global run_log  # noqa: PLW0603  (logging is the process's, and so is this part of it)
    handler: logging.StreamHandler[TextIO] = logging.StreamHandler(stream or sys.stdout)
    run_log = RunLogWriter(handler, redact)
    handler.setFormatter(JsonFormatter(redact))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    sys.stdout = StdoutLogger(logging.INFO, redact)
    sys.stderr = StdoutLogger(logging.WARNING, redact)


def leave_out_unused() -> None:
    """Stop logging from collecting what no line shows (the Logging HOWTO, "Optimization"); process-wide."""
    logging._srcfile = None
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
