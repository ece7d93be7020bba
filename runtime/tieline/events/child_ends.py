"""The end of a child run: it ends the wait of its parent, and wakes it."""

from tieline.events.queue import EventQueue
from tieline.events.wait_store import KeptEvent, Outcome, Wait
from tieline_protocol.child_runs import ENDED_TASK, ChildEnd, child_index, wait_name
from tieline_protocol.events import EventMetadata, ParentRun


async def end_wait_of_parent(queue: EventQueue, parent: ParentRun, end: ChildEnd, at: float) -> bool:
    """Whether the parent's wait has this child's end as its outcome. Idempotent, and the first end counts.

    Raises EventsUnavailableError.
    """
    if await queue.runs.end_of(parent.run) is not None:
        return False
    wait = Wait(
        index=child_index(end.child),
        run=parent.run,
        name=wait_name(end.child),
        key_hash=parent.key_hash,
    )
    metadata = EventMetadata(run=end.child, kind="event", task=ENDED_TASK, queued_at=at)
    event = KeptEvent(metadata=metadata, payload=end.encode())
    outcome = await queue.waits.decide(wait, Outcome(event=event))
    if not outcome.is_of(event):
        # The parent has timed out, and may wait for something else by now.
        return False
    await queue.waits.wake(wait)
    await queue.waits.close(wait)
    return True
