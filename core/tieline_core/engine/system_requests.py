"""Requests to the engine's servers through their system account."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from nats.aio.client import Client
from nats.errors import NoRespondersError

REQUEST_SECONDS = 10.0
_STRAGGLER_SECONDS = 2.0


class EngineAnswerError(Exception):
    """The engine refuses a request."""


async def ask(system: Client, subject: str, body: bytes) -> Any:
    """The ``data`` of the answer. Raises EngineAnswerError and the errors of nats-py."""
    answer = await system.request(subject, body, timeout=REQUEST_SECONDS)
    return _data(answer.data)


async def ask_all(
    system: Client, subject: str, body: Mapping[str, Any], *, servers: int | None = None
) -> Sequence[Mapping[str, Any]]:
    """The answers of all servers, or of those that are there. Raises as ``ask``.

    ``servers`` is how many there are; None where the answers say it.
    """
    inbox = system.new_inbox()
    subscription = await system.subscribe(inbox)
    answers: dict[str, Mapping[str, Any]] = {}
    try:
        await system.publish(subject, orjson.dumps(body), reply=inbox)
        until = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                message = await subscription.next_msg(timeout=max(until - time.monotonic(), 0.001))
            except TimeoutError:
                if not answers:
                    raise
                return list(answers.values())
            if (message.headers or {}).get("Status") == "503":
                raise NoRespondersError
            answer = _data(message.data)
            answers[str(answer.get("server_id"))] = answer
            expected = servers or int((answer.get("meta_cluster") or {}).get("cluster_size") or 1)
            if len(answers) >= expected:
                return list(answers.values())
            until = min(until, time.monotonic() + _STRAGGLER_SECONDS)
    finally:
        await subscription.unsubscribe()


def _data(content: bytes) -> Any:
    found = orjson.loads(content)
    if error := found.get("error"):
        raise EngineAnswerError(str(error.get("description") or "the engine refuses"))
    return found.get("data")
