"""Results of the steps of a run that has ended, as the record of its end has them.

The engine lets go of steps when their run ends. What is here starts another run from one of them.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

MAX_RESULTS_BYTES = 512 * 1024
"""Of a run's results and of the events that ended its waits, together. What is beyond is left out."""
MAX_RESULTS = 1000
_MAX_UNPACKED = MAX_RESULTS_BYTES * 6 + MAX_RESULTS * 4096
"""A control character takes six in JSON."""
MAX_NAME = 256
"""Characters of a name, which masking may make longer."""
_HASH_LENGTH = 32
_MAX_NUMBER = 1_000_000
_FAST = 1

STEPS_TTL = "1440h"
"""Longer than most runs sleep; what a pod that was paused adds to a run that has ended goes by itself."""

Missing = Literal["", "masked", "large"]
"""Why a result is left out."""


class InvalidResultsError(ValueError):
    """It is not what ``packed`` writes."""


@dataclass(frozen=True, kw_only=True)
class KeptOutcome:
    """How a wait for an event has ended."""

    wait: str
    """The wait's name."""
    event: str | None = None
    """The header of the event that ended it; None for a timeout."""
    payload: str = ""


@dataclass(frozen=True, kw_only=True)
class KeptResult:
    """A step that is done."""

    name: str
    """With secrets masked."""
    name_hash: str
    """The step's own name as one token of a subject."""
    occurrence: int
    place: int
    """Its position among the steps that run one after the other, from 1; 0 for steps without one."""
    work: str = ""
    """A hash of the function and its arguments."""
    version: str = ""
    """The version whose code did it."""
    run: str = ""
    """The run that its idempotency key names."""
    result: str = ""
    """JSON; with secrets masked where ``missing`` says so."""
    missing: Missing = ""
    """Why the result cannot be taken over; empty where it can."""
    outcome: KeptOutcome | None = None
    """How the wait has ended, of a step that waits for an event."""
    is_wait: bool = False
    """Whether the step waits for an event or an answer."""

    @property
    def idempotency_key(self) -> str:
        """What other systems got with the step's requests."""
        return f"{self.run}/{self.name_hash}/{self.occurrence}"

    @classmethod
    def parse(cls, content: dict[str, Any]) -> Self:
        """From JSON. Raises TypeError and ValueError for something else."""
        known = {name: value for name, value in content.items() if name in _NAMES}
        if (outcome := known.pop("outcome", None)) is not None:
            outcome = KeptOutcome(**outcome)
            texts = (outcome.wait, outcome.payload, outcome.event or "")
            if not all(isinstance(one, str) for one in texts):
                raise TypeError("no text")
        found = cls(**known, outcome=outcome)
        short = (found.name, found.work, found.version, found.run)
        if not all(isinstance(one, str) and len(one) <= MAX_NAME for one in short):
            raise TypeError("no text")
        if not isinstance(found.result, str) or not isinstance(found.is_wait, bool):
            raise TypeError("no result")
        if not _is_hash(found.name_hash) or found.missing not in get_args(Missing):
            raise ValueError("no step")
        for number, least in ((found.occurrence, 1), (found.place, 0)):
            if type(number) is not int or not least <= number <= _MAX_NUMBER:
                raise ValueError("no number")
        return found


_NAMES = {one.name for one in fields(KeptResult)}


def _is_hash(text: object) -> bool:
    return (
        isinstance(text, str) and len(text) == _HASH_LENGTH and all(one in "0123456789abcdef" for one in text)
    )


def outcome_name(name_hash: str, occurrence: int) -> str:
    """The name of the wait of a step that waits for an event."""
    return f"{name_hash}-{occurrence}"


def step_header(name: str, *, work: str, version: str, run: str = "") -> str:
    """The value of STEP_HEADER. ``run``: see ``KeptResult.run``; empty for the run that has the step."""
    about = {"name": name, "work": work, "version": version, **({"run": run} if run else {})}
    return json.dumps(about)


def packed(results: Sequence[KeptResult]) -> bytes:
    """The results as a record has them: compressed, so that readers of records take no notice of what is in them."""
    return zlib.compress(json.dumps([asdict(one) for one in results]).encode(), _FAST)


def unpacked(content: bytes) -> list[KeptResult]:
    """What ``packed`` wrote. Raises InvalidResultsError."""
    decompressor = zlib.decompressobj()
    try:
        found = decompressor.decompress(content, _MAX_UNPACKED)
        if not decompressor.eof:
            raise InvalidResultsError("Results of steps are cut off or too long")
        values = json.loads(found)
        if not isinstance(values, list) or len(values) > MAX_RESULTS:
            raise InvalidResultsError("Results of steps are no list, or too long")
        return [KeptResult.parse(one) for one in values]
    except (AttributeError, TypeError, ValueError, RecursionError, zlib.error) as error:
        raise InvalidResultsError(f"There are no results of steps: {type(error).__name__}") from None
