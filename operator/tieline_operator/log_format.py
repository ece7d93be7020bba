"""Logs: one JSON object a line, with severity, kind and object, and never what a Secret holds."""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from tieline_core.log_filters import drop_tls_close_errors

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# kopf attaches whole objects to its records.
_LARGE = frozenset({"k8s_ref", "k8s_skip", "settings"})


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; what is passed as ``extra`` becomes keys of it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": _moment(record.created),
            "severity": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
        }
        line |= {key: _plain(value) for key, value in vars(record).items() if _is_extra(key)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def set_up(level: str) -> None:
    """Sends the logs of everything to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # These would be a line a probe, and a line an event.
    for name in ("aiohttp.access", "kopf.objects"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("asyncio").addFilter(drop_tls_close_errors)


def _is_extra(key: str) -> bool:
    return key not in _STANDARD and key not in _LARGE


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | Mapping | None) else str(value)
