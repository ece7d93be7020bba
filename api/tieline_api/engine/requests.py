"""What can be asked of an account of the engine, whatever connection it goes over, and what goes wrong with it.

All that goes wrong becomes one of the errors of ``errors.py``.
"""

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from asyncio import timeout
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import DEFAULT_PREFIX
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from tieline_api.engine.errors import EngineFullError, EngineUnavailableError, NoStreamError
from tieline_core.engine.publisher import StreamFullError, is_full
from tieline_core.engine.stored_messages import EngineReadError, StoredMessage, read_page, stored_message
from tieline_engine.client import answer_status
from tieline_engine.connection import described

T = TypeVar("T")

logger = logging.getLogger("tieline.engine")

TIMEOUT = 5.0
"""Seconds for one answer of the engine."""
_PAGE = 500
"""Messages that are asked for at once."""
_NOT_FOUND = "404"
_NOT_FOUND_CODE = 404


@dataclass(frozen=True)
class Pending:
    """Messages of a stream that a consumer has not acknowledged."""

    waiting: int = 0
    """Not delivered yet."""
    taken: int = 0
    """Delivered."""


class EngineRequests(ABC):
    """Requests to one account of the engine."""

    prefix = DEFAULT_PREFIX
    """Of JetStream's API."""

    @abstractmethod
    async def ask_client(self, work: Callable[[Client], Awaitable[T]], *, seconds: float = TIMEOUT) -> T:
        """What ``work`` returns, in time. Raises the errors of this room, and NotFoundError of nats-py.

        Where the engine answers that there is no such stream, that is NoStreamError.
        """

    async def ask(self, work: Callable[[JetStreamContext], Awaitable[T]], *, seconds: float = TIMEOUT) -> T:
        """The same with JetStream's API. Raises as ``ask_client``."""
        return await self.ask_client(
            lambda client: work(client.jetstream(prefix=self.prefix, timeout=seconds)), seconds=seconds
        )

    async def request(self, subject: str, content: Mapping[str, Any] | bytes = b"") -> Msg:
        """The answer to a message. Raises as ``ask``."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return await self.ask_client(lambda client: client.request(subject, data, timeout=TIMEOUT))

    async def tell(self, subject: str, content: Mapping[str, Any]) -> None:
        """Sends a message that is not stored, to whoever listens. Raises as ``ask``."""

        async def send(client: Client) -> None:
            await client.publish(subject, json.dumps(content).encode())
            await client.flush(timeout=int(TIMEOUT))

        await self.ask_client(send)

    async def stream_info(self, stream: str) -> Mapping[str, Any] | None:
        """What JetStream says of a stream, None where there is none. Raises as ``ask``."""
        return await self._info(f"STREAM.INFO.{stream}")

    async def pending(self, stream: str, consumer: str) -> Pending:
        """What pods have not acknowledged of a consumer's messages; nothing where there is no stream.

        Raises as ``ask``.
        """
        try:
            found = await self._info(f"CONSUMER.INFO.{stream}.{consumer}")
        except NoStreamError:
            found = None
        if found is None:
            return Pending()
        return Pending(waiting=int(found["num_pending"]), taken=int(found["num_ack_pending"]))

    async def _info(self, what: str) -> Mapping[str, Any] | None:
        found: dict[str, Any] = json.loads((await self.request(f"$JS.API.{what}")).data)
        if error := found.get("error"):
            if error.get("code") == _NOT_FOUND_CODE:
                return None
            raise EngineUnavailableError
        return found

    async def subjects(self, stream: str, subjects: str) -> Collection[str]:
        """The subjects of a stream's messages, of those with wildcards: 100,000 at most. None where there is no stream.

        Raises as ``ask``.
        """
        try:
            answer = await self.request(f"$JS.API.STREAM.INFO.{stream}", {"subjects_filter": subjects})
        except NoStreamError:
            return ()
        # There may be megabytes of it.
        found: dict[str, Any] = await asyncio.to_thread(orjson.loads, answer.data)
        if error := found.get("error"):
            if error.get("code") == _NOT_FOUND_CODE:
                return ()
            raise EngineUnavailableError
        return (found.get("state", {}).get("subjects") or {}).keys()

    async def message(self, stream: str, sequence: int) -> StoredMessage | None:
        """A message by its sequence number, None when it or the stream is gone. Raises as ``ask``."""
        return await self._direct(stream, {"seq": sequence})

    async def first_at(self, stream: str, subject: str) -> StoredMessage | None:
        """The oldest message at a subject, which may have wildcards; None for none. Raises as ``ask``."""
        return await self._direct(stream, {"seq": 1, "next_by_subj": subject})

    async def all_at(self, stream: str, subject: str, *, most: int) -> list[StoredMessage]:
        """At most ``most`` messages at a subject, which may have wildcards, the oldest first. Raises as ``ask``.

        It is for streams with one message a subject. None where there is no such stream.
        """
        found: list[StoredMessage] = []
        while len(found) < most:
            start = found[-1].sequence + 1 if found else 1
            page = await self.page(stream, subject, start, min(_PAGE, most - len(found)))
            if not page:
                break
            found += page
        return found

    async def delete(self, stream: str, sequence: int) -> bool:
        """Deletes a message; whether it was there. Raises as ``ask``."""
        try:
            return await self.ask(lambda jetstream: jetstream.delete_msg(stream, sequence))
        except (NotFoundError, EngineUnavailableError):
            # JetStream answers 500 for a message that is gone; whether it is, the stream says.
            if await self.message(stream, sequence) is None:
                return False
            raise EngineUnavailableError from None

    async def purge(self, stream: str, subject: str) -> int:
        """Deletes all messages at a subject; how many there were. Raises as ``ask``."""
        try:
            answer = await self.request(f"$JS.API.STREAM.PURGE.{stream}", {"filter": subject})
        except NoStreamError:
            return 0
        found = json.loads(answer.data)
        if "error" in found:
            if found["error"].get("code") == _NOT_FOUND_CODE:
                return 0
            raise EngineUnavailableError
        return int(found.get("purged") or 0)

    async def _direct(self, stream: str, wanted: Mapping[str, Any]) -> StoredMessage | None:
        try:
            answer = await self.request(f"$JS.API.DIRECT.GET.{stream}", wanted)
        except NoStreamError:
            return None
        except EngineUnavailableError:
            # Nobody answers for a stream that is not there.
            if await self.stream_info(stream) is not None:
                raise
            return None
        status = answer_status(answer)
        if status == _NOT_FOUND:
            return None
        if status is not None:
            raise EngineUnavailableError
        return stored_message(answer)

    async def page(self, stream: str, subject: str, start: int, size: int) -> list[StoredMessage]:
        """The next messages at a subject; the engine sends as many as fit into its own bounds, and then says so.

        Raises as ``ask``.
        """
        wanted = {"seq": start, "next_by_subj": subject, "batch": size}

        async def work(client: Client) -> list[StoredMessage]:
            try:
                return [*await read_page(client, stream, wanted, seconds=TIMEOUT)]
            except nats.errors.NoRespondersError:
                raise NoStreamError from None
            except EngineReadError as error:
                logger.warning("%s", error)
                raise EngineUnavailableError from None

        try:
            return await self.ask_client(work)
        except NoStreamError:
            # Nobody answers for a stream that is not there.
            if await self.stream_info(stream) is not None:
                raise EngineUnavailableError from None
            return []


async def answer_of(client: Client, work: Callable[[Client], Awaitable[T]], *, seconds: float) -> T:
    """What ``work`` returns for a client that is connected. Raises as ``EngineRequests.ask_client``."""
    try:
        async with timeout(seconds):
            return await work(client)
    except StreamFullError:
        raise EngineFullError from None
    except NotFoundError:
        raise
    except NoStreamResponseError:
        raise NoStreamError from None
    except APIError as error:
        if is_full(error):
            raise EngineFullError from None
        logger.warning("The event engine refuses a request: %s", error)
        raise EngineUnavailableError from None
    except (nats.errors.Error, TimeoutError, OSError) as error:
        logger.warning("The event engine does not answer: %s", described(error))
        raise EngineUnavailableError from None
