"""The client of the event engine, for which messages that pods wrote never pass for messages of the engine itself.

nats-py takes any message with the header ``Status`` for a status of the server, and stops reading when it cannot parse
the headers of a message. Pods may store any headers.
"""

import logging
import re
import ssl
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from tieline_common.authorities import Trust

_STATUS = "Status"
_SEQUENCE = "Nats-Sequence"
_ACKNOWLEDGEMENTS = "$JS.ACK."
_NO_RESPONDERS = "503"
_DESCRIPTION = "Description"
_INLINE_STATUS = re.compile(rb"NATS/1\.0 (?P<status>[0-9]{3})(?P<description>.*)", re.DOTALL)


def delivery_status(message: Msg) -> str | None:
    """The engine's status at the inbox of a pull request; None for a message of the stream.

    A message of the stream has the subject of its acknowledgement as its reply, which the engine writes.
    """
    return None if message.reply.startswith(_ACKNOWLEDGEMENTS) else _status(message)


def answer_status(message: Msg) -> str | None:
    """The engine's status in an answer to DIRECT.GET; None for a message of the stream.

    The engine adds a stored message's number behind all headers that it was stored with, so that one counts.
    """
    return None if _SEQUENCE in (message.headers or {}) else _status(message)


def cluster_of(client: Client) -> str:
    """The name of the cluster of servers to which a client is connected; empty for a server of its own."""
    return str(client._server_info.get("cluster") or "")


def stored_sequence(message: Msg) -> int:
    """The number of a message of a stream, of which ``answer_status`` is None."""
    return int((message.headers or {})[_SEQUENCE])


def parsed_headers(block: bytes) -> dict[str, str] | None:
    """The headers of a message, without lines that are none. It takes any bytes: an error would end the connection.

    Of several headers of one name the last one counts.
    """
    first, _, rest = block.partition(b"\r\n")
    found: dict[str, str] = {}
    if inline := _INLINE_STATUS.fullmatch(first):
        found[_STATUS] = inline["status"].decode()
        if inline["description"]:
            found[_DESCRIPTION] = inline["description"].decode(errors="replace").strip()
    for line in rest.split(b"\r\n"):
        name, separator, value = line.partition(b":")
        key = name.strip().decode(errors="replace")
        if separator and key and key.isascii() and not any(one.isspace() for one in key):
            found[key] = value.strip().decode(errors="replace")
    return found or None


def _status(message: Msg) -> str:
    return (message.headers or {}).get(_STATUS, "")


def _says_something(record: logging.LogRecord) -> bool:
    """False for what event loops log whenever a connection of nats-py by TLS ends: it is of no consequence."""
    return "eof_received" not in str(record.msg)


class EngineClient(Client):
    """A client that reads whatever pods have stored.

    It overrides parts of nats-py that are not public, because nats-py has no hook there:
    ``tests/integration/engine/test_hostile_messages.py`` fails when they change.
    """

    def __init__(self, trust: Trust | None = None) -> None:
        """With ``trust`` it connects by TLS alone, to servers whose certificate is of an authority in it."""
        super().__init__()
        self.trust = trust
        if trust is not None:
            logging.getLogger("asyncio").addFilter(_says_something)

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """See nats-py, which asks for it at each connection."""
        context: ssl.SSLContext = self.trust() if self.trust is not None else super().ssl_context
        return context

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,  # noqa: ASYNC109 - the signature of nats-py
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        """See nats-py. Only the engine says that nobody answers, not a stored message with such a status."""
        if old_style:
            return await super().request(subject, payload, timeout=timeout, old_style=True)
        answer = await self._request_new_style(subject, payload, timeout=timeout, headers=headers)
        if answer_status(answer) == _NO_RESPONDERS and not answer.data:
            raise NoRespondersError
        return answer

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        return parsed_headers(headers) if headers else None

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        readable = subject.decode(errors="replace").encode()
        message: Msg = super()._build_message(sid, readable, reply, data, headers)
        return message
