"""Logs of the API: JSON lines with the keys of operator and runtime; never bodies, tokens or query strings."""

import logging
import sys
import warnings

from aiohttp import BadContentDispositionHeader, BadContentDispositionParam
from aiohttp.http_exceptions import HttpProcessingError

from tieline_core import json_logging


def without_input(record: logging.LogRecord) -> bool:
    """Takes out of aiohttp's complaints about malformed requests what was sent: it may be a token."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.exc_info = None
        record.levelno, record.levelname = logging.INFO, "INFO"
    return True


def set_up(level: str) -> None:
    """Sends all logs to standard output as lines of JSON."""
    json_logging.set_up(level, sys.stdout)
    logging.getLogger("aiohttp.access").disabled = True
    logging.getLogger("aiohttp.server").addFilter(without_input)
    # Warnings are lines of JSON too. Those about malformed headers of parts repeat what was sent.
    logging.captureWarnings(True)
    warnings.filterwarnings("ignore", category=BadContentDispositionHeader)
    warnings.filterwarnings("ignore", category=BadContentDispositionParam)
