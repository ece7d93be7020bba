"""The floor: what a person would write with nats-py, without retries, history, leases or traces.

BENCH_CONSUME=1 has the publisher consume as well, in the same process, as a pod does that runs its own events.
"""

import asyncio
import json
import os
from pathlib import Path

import uvloop
from nats.aio.client import Client
from nats.errors import TimeoutError as NothingToFetch

import nats
from bench.event_peers.publishing import Notes, arguments, load_of, payload, publish, write_sent
from tieline_engine.credentials import Credentials
from tieline_protocol.event_streams import PODS, EventStreams

_STREAMS = EventStreams(os.environ["BENCH_ORGANISATION"], os.environ["BENCH_ENVIRONMENT"])
_BATCH = 100
_CREDENTIALS = Credentials.parse(Path(os.environ["BENCH_CREDENTIALS"]).read_text())


async def _connected() -> Client:
    return await nats.connect(
        os.environ["BENCH_URL"],
        inbox_prefix=_STREAMS.inbox,
        user_jwt_cb=_CREDENTIALS.user_jwt_cb,
        signature_cb=_CREDENTIALS.signature_cb,
    )


async def _consume(client: Client) -> None:
    notes = Notes()
    queue = await client.jetstream().pull_subscribe_bind(consumer=PODS, stream=_STREAMS.queue)
    while True:
        try:
            messages = await queue.fetch(_BATCH, timeout=10)
        except NothingToFetch:
            continue
        for message in messages:
            notes.add(json.loads(message.data)["number"])
            await message.ack()


async def _main() -> None:
    chosen = arguments()
    client = await _connected()
    if chosen.what == "work":
        await _consume(client)
        return
    consuming = asyncio.ensure_future(_consume(client)) if os.environ.get("BENCH_CONSUME") else None
    jetstream = client.jetstream()

    async def call(number: int) -> None:
        await jetstream.publish(_STREAMS.event("orders", f"{number}"), json.dumps(payload(number)).encode())

    write_sent(chosen, await publish(call, **load_of(chosen)))
    if consuming is not None:
        # Whoever started it ends it, once all is done.
        await consuming


if __name__ == "__main__":
    uvloop.run(_main())
