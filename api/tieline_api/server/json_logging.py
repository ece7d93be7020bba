"""Logs: one JSON object a line, with the keys of operator and runtime; never bodies, tokens or query strings."""

import logging
import sys
import warnings
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import BadContentDispositionHeader, BadContentDispositionParam
from aiohttp.http_exceptions import HttpProcessingError

from tieline_core.log_filters import drop_tls_close_errors

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what was passed as ``extra`` becomes fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "timestamp": _moment(record.created),
            "severity": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
        }
        line.update({key: value for key, value in record.__dict__.items() if key not in _STANDARD})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def without_input(record: logging.LogRecord) -> bool:
    """Takes out of aiohttp's complaints about malformed requests what was sent: it may be a token."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.exc_info = None
        record.levelno, record.levelname = logging.INFO, "INFO"
    return True


def set_up(level: str) -> None:
    """Sends all logs to standard output as lines of JSON."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").disabled = True
    logging.getLogger("aiohttp.server").addFilter(without_input)
    logging.getLogger("asyncio").addFilter(drop_tls_close_errors)
    # Warnings are lines of JSON too. Those about malformed headers of parts repeat what was sent.
    logging.captureWarnings(True)
    warnings.filterwarnings("ignore", category=BadContentDispositionHeader)
    warnings.filterwarnings("ignore", category=BadContentDispositionParam)
