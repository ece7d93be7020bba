"""Calling the code: with a context of its own, on the event loop or in a thread, holding a turn meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import get_ident
from typing import Any

import aiohttp

from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import Activation
from tieline.connectors.caller import Connectors
from tieline.context import Context, RunMetadata, WebhookDelivery, activation_key
from tieline.events.publisher import Publisher
from tieline.events.run_events import RunEvents
from tieline.execution.background import BackgroundWork
from tieline.execution.fair_limiter import FairLimiter, Slot
from tieline.execution.progress import RunProgress
from tieline.server.run_history import DirectRuns
from tieline.state.documents import Documents
from tieline.sync import run_thread
from tieline.telemetry.spans import Tracer


class Invoker:
    """What all runs of a process share, and how their functions are called."""

    def __init__(
        self,
        *,
        configuration: Configuration,
        client: aiohttp.ClientSession,
        run_metadata: RunMetadata,
        tracer: Tracer,
        turns: FairLimiter,
        documents: Documents,
        background: BackgroundWork,
        threads: ThreadPoolExecutor,
        publisher: Publisher,
        direct_runs: DirectRuns,
        connectors: Connectors | None = None,
    ) -> None:
        self.configuration = configuration
        self.run_metadata = run_metadata
        self.tracer = tracer
        self.turns = turns
        self.background = background
        self.publisher = publisher
        self.direct_runs = direct_runs
        self._client = client
        self._documents = documents
        self._threads = threads
        self._connectors = connectors or Connectors()

    def close(self) -> None:
        """Let go of the threads; those that still run are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def context(
        self,
        execution_id: str,
        activation: Activation,
        events: RunEvents | None = None,
        *,
        delivery: WebhookDelivery | None = None,
        tags: dict[str, str] | None = None,
        progress: RunProgress | None = None,
    ) -> Context:
        """What a run is given; ``events`` is that of runs that are tried again, ``delivery`` that of webhooks.

        ``tags`` and ``progress`` take what the code says of the run.
        """
        return Context(
            execution_id=execution_id,
            configuration=self.configuration,
            client=self._client,
            run_metadata=self.run_metadata,
            activation=activation,
            tracer=self.tracer,
            documents=self._documents,
            background=self.background,
            events=events
            or RunEvents(self.publisher, run=execution_id, user=activation_key(activation) or None),
            delivery=delivery,
            connectors=self._connectors,
            tags=tags,
            progress=progress,
        )

    async def in_thread(self, slot: Slot, handler: Callable[..., Any], *arguments: Any) -> Any:
        """What a plain function returns. The run can be stopped, its thread cannot: that keeps the turn."""
        loop = asyncio.get_running_loop()
        work = self._threads.submit(copy_context().run, _call_in_thread, handler, *arguments)
        slot.keep()
        work.add_done_callback(lambda _: _call_soon(loop, slot.free))
        value = await asyncio.shield(asyncio.wrap_future(work))
        return await value if asyncio.iscoroutine(value) else value


def _call_in_thread(handler: Callable[..., Any], *arguments: Any) -> Any:
    run_thread.set(get_ident())
    return handler(*arguments)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
