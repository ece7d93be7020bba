"""Pods and engine killed, paused and cut off: what was accepted ends, in order, and no step is repeated.

``make faults`` does the same with more events and another seed each time.
"""

from __future__ import annotations

from pathlib import Path

from tests.faults.events.__main__ import faulty_events


async def test_accepted_events_end_in_order_despite_faults(tmp_path: Path) -> None:
    verdict, stage = await faulty_events(tmp_path, seed=4, events=60, pause=0.6, rate=12)
    print(dict(stage.faults), verdict.counts)
    assert not verdict.complaints, "\n".join([*verdict.complaints, f"see {tmp_path}"])
    assert verdict.counts["asked"] == 60
    assert stage.faults.total() >= 4
