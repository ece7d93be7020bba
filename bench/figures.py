"""Figures from samples, and the tables that show them."""

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


def percentile(samples: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: ``share`` 0.99 of 100 samples is the 99th smallest."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True)
class Load:
    """What a bounded load measured."""

    per_second: float
    p50: float
    p99: float

    def cells(self) -> list[str]:
        return [f"{self.per_second:,.0f}", f"{self.p50 * 1000:.1f}", f"{self.p99 * 1000:.1f}"]


async def load(call: Callable[[], Awaitable[object]], *, requests: int, in_flight: int) -> Load:
    """Makes ``requests`` calls with ``in_flight`` of them at a time, after a short warm-up."""
    for _ in range(min(20, requests)):
        await call()
    durations: list[float] = []
    left = requests

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            await call()
            durations.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    elapsed = time.perf_counter() - began
    return Load(
        per_second=len(durations) / elapsed, p50=percentile(durations, 0.5), p99=percentile(durations, 0.99)
    )


def load_average() -> str:
    """The machine's load over the last minute: what else it had to do while something was measured."""
    return f"{os.getloadavg()[0]:.1f}"


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table under a heading."""
    lines = [f"### {title}", "", "| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
