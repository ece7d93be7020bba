"""What operator and pods have in the event engine, for tests of the REST API."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from tests.harness.processes.nats_server import NatsServer
from tieline_core.engine.audit_streams import ensure_audit
from tieline_core.engine.state_streams import ensure_state
from tieline_core.engine.streams import StreamLimits, ensure_history
from tieline_core.identity.ids import new_id
from tieline_protocol.approvals import Approval
from tieline_protocol.event_streams import PODS, TTL, EventStreams
from tieline_protocol.run_records import RunRecord, encode

T = TypeVar("T")

LIMITS = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24, history_bytes=1 << 24)


def with_engine(
    engine: NatsServer,
    work: Callable[[Nats], Awaitable[T]],
    streams: EventStreams | None = None,
    *,
    pod: bool = False,
) -> T:
    """What ``work`` returns for a client with all rights in the account of ``streams``, or of the platform.

    With ``pod`` it has the rights of the environment's pods.
    """

    async def run() -> T:
        client = await _client(engine, streams, pod=pod)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


async def _client(engine: NatsServer, streams: EventStreams | None, *, pod: bool) -> Nats:
    if streams is None:
        return await engine.admin()
    return await (engine.pod(streams) if pod else engine.environment(streams))


def make_streams(
    engine: NatsServer, organisation: str, environment: str, limits: StreamLimits = LIMITS
) -> EventStreams:
    """The streams of an environment and of its organisation, as the operator makes them."""
    streams = EventStreams(organisation, environment)

    async def make(client: Nats) -> None:
        await ensure_history(client.jetstream(), organisation, limits)
        await ensure_state(client.jetstream(), organisation, limits)
        await ensure_audit(client.jetstream(), organisation, limits)
        await engine.make_environment(streams, limits)

    with_engine(engine, make)
    return streams


def make_state_streams(engine: NatsServer, organisation: str, limits: StreamLimits = LIMITS) -> None:
    """The streams of an organisation's state and schedules, as the operator makes them."""

    async def make(client: Nats) -> None:
        await ensure_state(client.jetstream(), organisation, limits)

    with_engine(engine, make)


def report(engine: NatsServer, organisation: str, environment: str, *records: RunRecord) -> None:
    """What a pod of the environment reports."""
    streams = EventStreams(organisation, environment)

    async def publish(client: Nats) -> None:
        await client.jetstream(timeout=5).publish(streams.history, encode(records))

    with_engine(engine, publish, streams, pod=True)


def ask(engine: NatsServer, streams: EventStreams, **fields: Any) -> Approval:
    """What a run of the environment asks, as its pod stores it."""
    now = time.time()
    content = {
        "id": new_id(),
        "run": new_id(),
        "task": "refund.requested",
        "title": "Refund?",
        "asked_at": now,
        "until": now + 3600,
    }
    approval = Approval(**{**content, **fields})

    async def store(client: Nats) -> None:
        subject = streams.approval(approval.id, approval.run)
        await client.jetstream(timeout=5).publish(subject, approval.encode(), headers={TTL: "3600s"})

    with_engine(engine, store, streams, pod=True)
    return approval


def fetched(engine: NatsServer, streams: EventStreams, stream: str, *, seconds: float = 2.0) -> list[Msg]:
    """The messages that pods would get from a stream now. They are not acknowledged."""

    async def fetch(client: Nats) -> list[Msg]:
        queue = await client.jetstream().pull_subscribe_bind(consumer=PODS, stream=stream)
        try:
            return list(await queue.fetch(10, timeout=seconds))
        except TimeoutError:
            return []

    return with_engine(engine, fetch, streams, pod=True)


def stored(engine: NatsServer, streams: EventStreams, stream: str) -> int:
    """How many messages a stream of an environment has."""

    async def count(client: Nats) -> int:
        return int((await client.jetstream().stream_info(stream)).state.messages)

    return with_engine(engine, count, streams)


def message_at(
    engine: NatsServer, streams: EventStreams, stream: str, subject: str
) -> tuple[bytes, dict[str, str]] | None:
    """The message of an environment's stream at a subject, which may have wildcards."""

    async def get(client: Nats) -> tuple[bytes, dict[str, str]] | None:
        wanted = json.dumps({"seq": 1, "next_by_subj": subject}).encode()
        answer = await client.request(f"$JS.API.DIRECT.GET.{stream}", wanted, timeout=5)
        headers: dict[str, Any] = answer.headers or {}
        return None if headers.get("Status") == "404" else (answer.data, headers)

    return with_engine(engine, get, streams)
