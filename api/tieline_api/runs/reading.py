"""Takes what pods report of runs from the engine's streams into the index."""

from collections import Counter
from collections.abc import Sequence

from tieline_api.engine.requests import StoredMessage
from tieline_api.runs.index import IndexedMessage, RunIndex
from tieline_api.runs.records import read_records
from tieline_core.identity.ids import parse_id

PREFIX = "history"
"""Of the streams' names, and of their subjects."""


class RunReader:
    """The index, as a store of streams (StreamStore)."""

    name = "runs"

    def __init__(self, index: RunIndex) -> None:
        self._index = index
        self.counts: Counter[str] = Counter()
        """Records by what became of them: ``read``, ``malformed``; and ``failed`` attempts to keep some."""
        self.begin = index.begin
        self.forget = index.forget
        self.bound = index.bound
        self.close = index.close

    def take(self, organisation: str, messages: Sequence[StoredMessage]) -> None:
        """Puts the records of messages into the index."""
        found, read, malformed = [], 0, 0
        for message in messages:
            environment = _environment(organisation, message.subject)
            if environment is None:
                malformed += 1
                continue
            records, bad = read_records(message.data, stored_at=message.stored_at)
            malformed += bad
            read += len(records)
            found.append(IndexedMessage(message.sequence, environment, records))
        self._index.apply(organisation, found, position=messages[-1].sequence)
        self.counts.update(read=read, malformed=malformed)

    def skip(self, organisation: str, message: StoredMessage) -> None:
        """Goes on after a message that cannot be applied."""
        self._index.apply(organisation, [], position=message.sequence)
        self.counts["malformed"] += 1

    def sweep(self, organisation: str, first: int) -> None:
        """Removes the runs of which the stream has nothing any more."""
        self._index.sweep(organisation, first=first)

    def failed(self) -> None:
        """Counts that something could not be kept."""
        self.counts["failed"] += 1


def _environment(organisation: str, subject: str) -> str | None:
    """The environment whose pods may publish at this subject: what records say of themselves does not count."""
    match subject.split("."):
        case ["history", owner, environment] if owner == organisation:
            return environment if parse_id(environment) == environment else None
    return None
