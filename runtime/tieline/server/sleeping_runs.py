"""Runs that wait or sleep, as the platform hands them out to be replayed against other code."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tieline.events.run_store import KeptStep
from tieline.events.wait_store import KeptEvent, Outcome
from tieline_protocol.events import HEADER, EventMetadata


@dataclass(frozen=True, kw_only=True)
class SleepingRun:
    """A run with everything that is recorded of it."""

    metadata: EventMetadata
    payload: bytes
    steps: Sequence[KeptStep]
    outcomes: Mapping[str, Outcome]
    """How its waits have ended, by the waits' names."""


def sleeping_run(content: Mapping[str, Any]) -> SleepingRun:
    """From JSON. Raises InvalidEventError, and KeyError, TypeError or ValueError for something else."""
    return SleepingRun(
        metadata=_metadata(content["metadata"]),
        payload=base64.b64decode(content["payload"]),
        steps=[
            KeptStep(
                name=step["name"],
                occurrence=step["occurrence"],
                place=step["place"],
                work=step["work"],
                version=step["version"],
                result=step["result"].encode(),
            )
            for step in content["steps"]
        ],
        outcomes={one["wait"]: _outcome(one) for one in content["outcomes"]},
    )


def _outcome(content: Mapping[str, Any]) -> Outcome:
    if content.get("metadata") is None:
        return Outcome()
    metadata, payload = _metadata(content["metadata"]), base64.b64decode(content["payload"])
    return Outcome(event=KeptEvent(metadata=metadata, payload=payload))


def _metadata(content: Any) -> EventMetadata:
    return EventMetadata.parse({HEADER: json.dumps(content)})
