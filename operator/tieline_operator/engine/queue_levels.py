"""How full the queues of environments are, for the status of Projects: coarse, so that it is written rarely. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.engine.stream_readings import EnvironmentReading, age
from tieline_operator.workload.pods import Failure

QUIET_SECONDS = 60.0
"""Between two changes of an environment's level."""


@dataclass(frozen=True)
class QueueLevel:
    """Numbers, rounded down to a power of ten."""

    queued: int = 0
    """Events that wait for a run, or for a time."""
    dead_letters: int = 0
    oldest_minutes: int = 0
    """How long the oldest event in the queue has been there; 0 for less than a minute."""
    engine_bytes: int = 0
    """Bytes that its streams may take together, exactly: they change rarely."""
    refusal: Failure | None = None
    """Why it has no streams though it needs some."""


EMPTY = QueueLevel()


class QueueLevels:
    """The levels by environment, as the status of Projects has them."""

    def __init__(self) -> None:
        self._levels: dict[StreamKey, tuple[QueueLevel, float]] = {}

    def update(self, readings: Mapping[StreamKey, EnvironmentReading], now: float) -> set[StreamKey]:
        """Takes a survey's readings; returns the environments whose level is another one from now on.

        A level that has changed a short time ago stays for a minute. The survey after that changes it.
        """
        changed = set()
        for key, reading in readings.items():
            level = QueueLevel(
                _rounded(reading.queued + reading.waiting),
                _rounded(reading.dead_letters),
                _rounded(int(age(reading.oldest) // 60)),
                reading.engine_bytes,
                reading.refusal,
            )
            before, since = self._levels.get(key, (None, float("-inf")))
            if level != before and now - since >= QUIET_SECONDS:
                self._levels[key] = level, now
                changed.add(key)
        for key in self._levels.keys() - readings.keys():
            del self._levels[key]
        return changed

    def get(self, namespace: str, secret: str) -> QueueLevel | None:
        """The level of an environment, by its credentials; None while it is not known."""
        found = self._levels.get(StreamKey(namespace, secret))
        return found[0] if found else None


def _rounded(number: int) -> int:
    """Rounds down to a power of ten.

    >>> [_rounded(number) for number in (0, 1, 9, 10, 99, 12_345)]
    [0, 1, 1, 10, 10, 10000]
    """
    return 10 ** (len(str(number)) - 1) if number else 0
