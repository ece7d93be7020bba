"""What the event loop says of connections that were given up."""

import logging


def drop_tls_close_errors(record: logging.LogRecord) -> bool:
    """Leaves out uvloop's complaint that it cannot say goodbye on a TLS connection that is closed already.

    It comes when an answer was not waited for any longer: who asked has an error of its own, and tells of it. As a
    filter for the logger ``asyncio``; seen with uvloop 0.23, as an error with a traceback.
    """
    error = record.exc_info[1] if record.exc_info else None
    closed = isinstance(error, RuntimeError) and "the handler is closed" in str(error)
    return not (closed and record.getMessage().startswith("Fatal error on SSL protocol"))
