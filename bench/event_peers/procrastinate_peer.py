"""procrastinate on Postgres."""

import asyncio
import os

import uvloop
from procrastinate import App, PsycopgConnector

from bench.event_peers.publishing import Notes, arguments, load_of, payload, publish, write_sent

_POOL = int(os.environ.get("BENCH_POOL", "32"))
_CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "10"))
app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_URL"], min_size=4, max_size=_POOL))
_notes = Notes() if os.environ.get("BENCH_NOTES") else None


@app.task(name="order")
async def order(number: int, padding: str) -> None:
    assert _notes is not None
    _notes.add(number)


async def main() -> None:
    chosen = arguments()
    async with app.open_async():
        if chosen.what == "prepare":
            await app.schema_manager.apply_schema_async()
        elif chosen.what == "work":
            await app.run_worker_async(concurrency=_CONCURRENCY)
        else:

            async def call(number: int) -> None:
                await order.defer_async(**payload(number))

            await asyncio.sleep(0.5)
            write_sent(chosen, await publish(call, **load_of(chosen)))


if __name__ == "__main__":
    uvloop.run(main())
