"""``python -m tests.faults.events --seed 7``: events on this machine, under faults that the seed chooses.

The choices of a seed are always the same; how processes interleave is not, so a failure may need a few tries.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.events.stage import EventStage
from tests.faults.events.verdict import EventVerdict, judge_events
from tests.harness.processes.nats_server import running_nats_server


async def faulty_events(
    folder: Path,
    *,
    seed: int,
    events: int,
    pause: float,
    rate: float,
    publishers: int = 6,
    show: bool = False,
) -> tuple[EventVerdict, EventStage]:
    """Publishes events under faults, waits for their ends, and judges them."""
    began = time.monotonic()

    def note(text: str) -> None:
        line = f"{time.monotonic() - began:7.1f} {text}"
        with (folder / "faults.log").open("a") as log:
            log.write(f"{time.monotonic():.3f} {line}\n")
        if show:
            print(line, flush=True)

    (folder / "engine").mkdir()
    with running_nats_server(folder / "engine") as engine:
        stage = await EventStage.make(engine, folder, seed, note)
        try:
            await stage.run(events, publishers=publishers, pause=pause, rate=rate)
            return judge_events(await stage.peace()), stage
        finally:
            await stage.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.events", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what happens; default: the time")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two faults")
    parser.add_argument("--rate", type=float, default=15.0, help="events a second")
    parser.add_argument("--publishers", type=int, default=24, help="clients that publish at once")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tieline-event-faults-"))
    began = time.monotonic()
    verdict, stage = asyncio.run(
        faulty_events(
            folder,
            seed=given.seed,
            events=given.events,
            pause=given.pause,
            rate=given.rate,
            publishers=given.publishers,
            show=True,
        )
    )
    for counts in (stage.faults, verdict.counts):
        print("\n".join(f"{count:7,} {what}" for what, count in counts.items()), end="\n\n")
    print(f"Seed {given.seed}, {(time.monotonic() - began) / 60:.1f} minutes")
    if verdict.complaints:
        print(
            "\n".join(verdict.complaints[:50]),
            f"{len(verdict.complaints)} complaints; see {folder}",
            sep="\n",
        )
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("All held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
