"""One HTTP client for the command: certificates, time-outs, bounded answers."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import orjson
import urllib3
from urllib3.exceptions import HTTPError, SSLError

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError

CONNECT_SECONDS = 10
READ_SECONDS = 60
MAX_ANSWER = 64 * 2**20
ANSWER_SECONDS = 300.0
"""For a whole answer, once its headers are there."""
_CHUNK = 2**16


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An HTTP answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None for an empty one. Raises ValueError."""
        return orjson.loads(self.body) if self.body else None


@cache
def _pool(ca_file: str | None) -> urllib3.PoolManager:
    return urllib3.PoolManager(ca_certs=ca_file, retries=False, maxsize=4)


def send(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    fields: Mapping[str, Any] | None = None,
    ca_file: str | None = None,
    read_seconds: float = READ_SECONDS,
) -> Answer:
    """Sends one request and reads at most 64 MiB of its answer. Redirects are not followed: they could take the token
    elsewhere.

    ``fields`` are sent as ``multipart/form-data``. Raises CommandError (``UNAVAILABLE``) if there is no answer.
    """
    try:
        response = _pool(ca_file).request(
            method,
            url,
            headers=dict(headers or {}),
            body=body,
            fields=fields,
            redirect=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
        )
        try:
            content = _content(response, host=_host(url))
        finally:
            response.close()
    except SSLError as error:
        raise CommandError(
            f"The certificate of {_host(url)} is not accepted: {error}. "
            "With a private authority, sign in with --ca-file.",
            ExitCode.UNAVAILABLE,
        ) from None
    except (HTTPError, OSError) as error:
        raise CommandError(
            f"{_host(url)} cannot be reached: {_reason(error)}", ExitCode.UNAVAILABLE
        ) from None
    except (ValueError, UnicodeError):
        # The reason of http.client has the header's value.
        raise UsageError(
            "The method, a header or the address has characters that HTTP does not allow"
        ) from None
    return Answer(status=response.status, headers=response.headers, body=content)


def _content(response: urllib3.BaseHTTPResponse, *, host: str) -> bytes:
    content = bytearray()
    until = time.monotonic() + ANSWER_SECONDS
    while part := response.read1(_CHUNK, decode_content=True):
        content += part
        if len(content) > MAX_ANSWER:
            raise CommandError(f"{host} answers with more than {MAX_ANSWER // 2**20} MiB")
        if time.monotonic() > until:
            raise CommandError(
                f"{host} has not sent its whole answer within {ANSWER_SECONDS:.0f} s", ExitCode.UNAVAILABLE
            )
    return bytes(content)


def _host(url: str) -> str:
    return urlsplit(url).netloc or "the platform"


def _reason(error: Exception) -> str:
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    text = str(cause) or type(cause).__name__
    return text.partition("] ")[2] or text
