"""Child runs: a run starts a run of one of its environment's tasks, and waits for what the code returns."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tieline.events.publisher import Prepared, Publisher, UnknownTaskError
from tieline.events.queue import EventQueue
from tieline.events.retry import Reject
from tieline.events.run_waits import Place, RunWaits
from tieline.events.wait_store import KeptEvent
from tieline.plain_json import encode
from tieline_protocol.child_runs import MAX_DEPTH, MAX_RESULT_BYTES, ChildEnd, InvalidChildEndError
from tieline_protocol.events import EventMetadata, ParentRun
from tieline_protocol.waits import MAX_WAIT_SECONDS


class ChildRunError(Reject):
    """A child run has not succeeded: it is a dead letter, was cancelled, or did not end in time.

    Its outcome is final for the run that waited, so without ``except`` that becomes a dead letter without a retry.

    >>> issubclass(ChildRunError, Reject)
    True
    """

    def __init__(self, run_id: str, status: str, message: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        """The child's run."""
        self.status = status
        """``dead``, ``cancelled``, ``timed_out``, or ``failed`` where it is not known how it ended."""


class ChildRunRefusedError(Reject):
    """A child run was not started: it would wait for its own parent, or too many runs stand above it.

    >>> issubclass(ChildRunRefusedError, Reject)
    True
    """


class RunChildren:
    """The children of one attempt."""

    def __init__(
        self,
        waits: RunWaits,
        publisher: Publisher,
        queue: EventQueue,
        *,
        metadata: EventMetadata,
        key_hash: str | None,
    ) -> None:
        """``metadata`` is the run's own. ``key_hash`` is that of the key in whose order it is; None without one."""
        self._waits = waits
        self._publisher = publisher
        self._queue = queue
        self._parent = _as_parent(metadata, key_hash)

    async def run(
        self,
        task: str,
        payload: Any,
        timeout: float | timedelta,  # noqa: ASYNC109  (the run ends meanwhile)
        place: Place,
        *,
        key: str | None,
        user: str | None,
        traceparent: str | None,
    ) -> Any:
        """See ``Context.run``. Ends the attempt with SuspendedRun until the child has ended."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
        if not 0 < seconds <= MAX_WAIT_SECONDS:
            raise ValueError(
                f"The timeout of a child run is from 0 to {MAX_WAIT_SECONDS / 86400:g} days, not {seconds:g} seconds"
            )
        if task not in self._publisher.tasks:
            raise UnknownTaskError(task, self._publisher.tasks)
        prepared = self._publisher.prepare(task, payload, key=key, user=user, traceparent=traceparent)
        self._require_allowed(prepared.metadata)

        async def start(child: str, *, may_be_started: bool) -> None:
            if may_be_started and await self._queue.has_run(child):
                return
            await self._start(prepared, child)

        work = encode([task, json.loads(prepared.content), prepared.metadata.key, prepared.metadata.user])
        child, end = await self._waits.run_child(task, work, seconds, start, place)
        return _result(task, child, end)

    async def _start(self, prepared: Prepared, child: str) -> None:
        metadata = replace(prepared.metadata, run=child, parent=self._parent)
        await self._publisher.store(metadata, prepared.content, attempts=prepared.attempts)

    def _require_allowed(self, child: EventMetadata) -> None:
        """Raises ChildRunRefusedError."""
        if self._parent.depth > MAX_DEPTH:
            raise ChildRunRefusedError(
                f"{MAX_DEPTH} runs wait for this one already, which is as many as may: does {child.task!r} run itself?"
            )
        if child.key is not None and child.key_hash in self._parent.keys:
            raise ChildRunRefusedError(
                f"A run of {child.task!r} with the key {child.key!r} would never begin: it would be queued behind a "
                "run with this key that waits for it. Give it another key, or none"
            )


def _as_parent(metadata: EventMetadata, key_hash: str | None) -> ParentRun:
    above = metadata.parent
    keys = above.keys if above is not None else ()
    return ParentRun(
        run=metadata.run,
        key_hash=key_hash,
        depth=above.depth + 1 if above is not None else 1,
        keys=keys if key_hash is None else (*keys, key_hash),
    )


def result_text(task: str, value: Any) -> str:
    """What a child returned, as JSON. Raises Reject: another attempt would do its work again, and fail again."""
    try:
        text = encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Reject(
            f"{task!r} is done, but what it returned, a {type(value).__name__}, is no JSON data ({error}); return what "
            "the run that waits needs of it"
        ) from None
    if len(json.dumps(text)) > MAX_RESULT_BYTES:
        raise Reject(
            f"{task!r} is done, but what it returned has more than {MAX_RESULT_BYTES:,} bytes: store it elsewhere, and "
            "return where it is"
        )
    return text


def _result(task: str, child: str, event: KeptEvent | None) -> Any:
    """What the child returned. Raises ChildRunError."""
    if event is None:
        raise ChildRunError(child, "timed_out", f"The run {child} of {task!r} did not end in time")
    try:
        end = ChildEnd.decode(event.payload)
        if end.status == "succeeded" and end.result is not None:
            return json.loads(end.result)
    except (InvalidChildEndError, RecursionError, ValueError):
        raise ChildRunError(
            child, "failed", f"What the run {child} of {task!r} returned cannot be read"
        ) from None
    why = ": ".join(one for one in (end.error_type.rpartition(".")[2], end.error) if one)
    what = {
        "dead": f"is a dead letter: {why}" if why else "is a dead letter",
        "cancelled": "was cancelled",
        "succeeded": "has ended, and what it returned is not known any more",
        "failed": "has ended, and it is not known how",
    }[end.status]
    status = "failed" if end.status == "succeeded" else end.status
    raise ChildRunError(child, status, f"The run {child} of {task!r} {what}")
