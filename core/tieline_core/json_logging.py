"""Logs of operator and API: one JSON object a line; what is passed as ``extra`` becomes keys of it."""

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TextIO

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.orjson import OrjsonFormatter

# kopf attaches whole objects to its records.
_HIDDEN = (*RESERVED_ATTRS, "taskName", "k8s_ref", "k8s_skip", "settings")
_FIELDS = {"asctime": "timestamp", "levelname": "severity", "message": "message", "name": "logger"}


class JsonFormatter(OrjsonFormatter):
    """Writes timestamp, severity, message, logger, the extra fields and exception, in this order."""

    def __init__(self) -> None:
        super().__init__([*_FIELDS], rename_fields=_FIELDS, reserved_attrs=_HIDDEN, json_default=str)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """RFC 3339 in UTC, with milliseconds."""
        moment = datetime.fromtimestamp(record.created, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        """As JSON. Lone surrogates, for which the line would be lost, become question marks."""
        try:
            return super().jsonify_log_record(log_data)
        except TypeError:
            text = json.dumps(log_data, default=str, ensure_ascii=False, skipkeys=True)
            return text.encode(errors="replace").decode()

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """Leaves out the traceback that another handler has cached in the record: a filter may have removed it."""
        record.message = record.getMessage()
        super().add_fields(log_data, record, {})
        if record.exc_info:
            log_data["exception"] = message_dict["exc_info"]


def set_up(level: str, stream: TextIO, *, quiet: Iterable[str] = ()) -> None:
    """Sends all logs to ``stream``; of the loggers in ``quiet``, warnings and errors only."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("asyncio").addFilter(drop_tls_close_errors)


def drop_tls_close_errors(record: logging.LogRecord) -> bool:
    """Leaves out uvloop's complaint that it cannot say goodbye on a TLS connection that is closed already.

    It comes when an answer was not waited for any longer: who asked has an error of its own, and tells of it. As a
    filter for the logger ``asyncio``; seen with uvloop 0.23, as an error with a traceback.
    """
    error = record.exc_info[1] if record.exc_info else None
    closed = isinstance(error, RuntimeError) and "the handler is closed" in str(error)
    return not (closed and record.getMessage().startswith("Fatal error on SSL protocol"))
