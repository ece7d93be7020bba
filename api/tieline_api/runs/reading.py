"""Takes the records of runs from the engine's streams into the index."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from tieline_api.engine.connection import Engine
from tieline_api.engine.followers import Followers
from tieline_api.runs.fingerprints import is_issue_id
from tieline_api.runs.index import RunIndex
from tieline_api.runs.issues import Decision, StoredDecision
from tieline_api.runs.model import CALLS, DIRECT_KINDS, KINDS
from tieline_api.runs.records import read_records
from tieline_api.runs.writing import IndexedMessage
from tieline_core.engine.state_streams import ISSUES, is_report
from tieline_core.engine.stored_messages import StoredMessage
from tieline_core.identity.ids import parse_id
from tieline_protocol.events import RunKind
from tieline_protocol.run_records import InvalidRecordsError, unpacked

Notify = Callable[[str, str, Iterable[str]], None]
"""Takes an organisation, ``run`` or ``issue``, and the ids of those that changed."""
HISTORY, DIRECT = "history", "direct"
"""Of the streams' names, and of their subjects."""


class RunReader:
    """The index, as a store of streams (StreamStore): those of direct runs, or those of all others."""

    def __init__(
        self,
        index: RunIndex,
        *,
        direct: bool = False,
        counts: Counter[str] | None = None,
        notify: Notify | None = None,
    ) -> None:
        """``notify`` is called in any thread, once the index has the changes."""
        self._index = index
        self._direct = direct
        self._notify = notify
        self.name = "direct runs" if direct else "runs"
        self.counts: Counter[str] = Counter() if counts is None else counts
        """Records by what became of them: ``read``, ``malformed``; and ``failed`` attempts to keep some."""
        self.bound = index.bound
        self.close = index.close

    def begin(self, organisation: str, created: str) -> int:
        """How far the stream was read."""
        return self._index.begin(organisation, created, direct=self._direct)

    def forget(self, organisation: str) -> None:
        """Removes what the stream had."""
        self._index.forget(organisation, direct=self._direct)

    def take(self, organisation: str, messages: Sequence[StoredMessage]) -> None:
        """Puts the records of messages into the index."""
        found, read, malformed = [], 0, 0
        for message in messages:
            environment, kinds = _origin(organisation, message.subject)
            if environment is None:
                malformed += 1
                continue
            try:
                content = unpacked(message.data) if self._direct else message.data
            except InvalidRecordsError:
                malformed += 1
                continue
            records, bad = read_records(content, stored_at=message.stored_at, kinds=kinds)
            malformed += bad
            read += len(records)
            found.append(
                IndexedMessage(message.sequence, environment, records, stored_at=message.stored_at or 0.0)
            )
        self._index.apply(organisation, found, position=messages[-1].sequence, direct=self._direct)
        self.counts.update(read=read, malformed=malformed)
        if self._notify is not None and read:
            self._notify(organisation, "run", {one.record.id for message in found for one in message.records})

    def skip(self, organisation: str, message: StoredMessage) -> None:
        """Goes on after a message that cannot be applied."""
        self._index.apply(organisation, [], position=message.sequence, direct=self._direct)
        self.counts["malformed"] += 1

    def sweep(self, organisation: str, first: int) -> None:
        """Removes the runs of which the stream has nothing any more."""
        self._index.sweep(organisation, first=first, direct=self._direct)

    def failed(self) -> None:
        """Counts that something could not be kept."""
        self.counts["failed"] += 1


class DecisionReader:
    """The index, as a store of the streams of decisions about issues (StreamStore)."""

    name = "decisions about issues"

    def __init__(self, index: RunIndex, counts: Counter[str], notify: Notify | None = None) -> None:
        """``notify`` is called in any thread, once the index has the decisions."""
        self._index = index
        self._counts = counts
        self._notify = notify
        self.bound = index.bound
        self.close = index.close

    def begin(self, organisation: str, created: str) -> int:
        """How far the stream was read."""
        return self._index.begin_decisions(organisation, created)

    def forget(self, organisation: str) -> None:
        """Removes what the stream had."""
        self._index.forget_decisions(organisation)

    def take(self, organisation: str, messages: Sequence[StoredMessage]) -> None:
        """Puts decisions into the index."""
        found = []
        for message in messages:
            if is_report(message.subject):
                continue
            try:
                found.append(_decision(organisation, message))
            except ValueError:
                self._counts["malformed"] += 1
        self._index.decide(organisation, found, position=messages[-1].sequence)
        if self._notify is not None and found:
            self._notify(organisation, "issue", {one.issue for one in found})

    def skip(self, organisation: str, message: StoredMessage) -> None:
        """Goes on after a message that cannot be applied."""
        self._index.decide(organisation, [], position=message.sequence)
        self._counts["malformed"] += 1

    def sweep(self, organisation: str, first: int) -> None:
        """Removes the decisions that the stream has not any more."""
        self._index.forget_decisions(organisation, before=first)

    def failed(self) -> None:
        """Counts that something could not be kept."""
        self._counts["failed"] += 1


def _decision(organisation: str, message: StoredMessage) -> StoredDecision:
    """The decision in a message. Raises ValueError."""
    match message.subject.split("."):
        case [kind, owner, environment, issue] if kind == ISSUES and owner == organisation:
            if parse_id(environment) == environment and is_issue_id(issue):
                return StoredDecision(message.sequence, issue, Decision.parse(message.data))
    raise ValueError("no issue")


class RunFollowers:
    """Follows the streams of each organisation into one index: both of runs, and that of decisions about issues."""

    def __init__(
        self,
        engine: Engine,
        index: RunIndex,
        *,
        serves: Callable[[str], bool],
        notify: Notify | None = None,
    ) -> None:
        self.reader = RunReader(index, notify=notify)
        direct = RunReader(index, direct=True, counts=self.reader.counts, notify=notify)
        self._history = Followers(engine, self.reader, prefix=HISTORY, serves=serves)
        self._direct = Followers(engine, direct, prefix=DIRECT, serves=serves)
        decisions = DecisionReader(index, self.reader.counts, notify)
        self._decisions = Followers(engine, decisions, prefix=ISSUES, serves=serves)

    @property
    def counts(self) -> Counter[str]:
        """What became of the records of both."""
        return self.reader.counts

    @property
    def organisations(self) -> int:
        """How many organisations' histories are followed."""
        return self._history.organisations

    @property
    def stalled(self) -> int:
        """How many streams cannot be read further."""
        return self._history.stalled + self._direct.stalled + self._decisions.stalled

    def is_stalled(self, organisation: str) -> bool:
        """Whether a stream of an organisation cannot be read further."""
        return self._history.is_stalled(organisation) or self._direct.is_stalled(organisation)

    def is_stalled_in_issues(self, organisation: str) -> bool:
        """Whether decisions about an organisation's issues cannot be read further."""
        return self._decisions.is_stalled(organisation)

    async def start(self) -> None:
        """Begins to look for streams."""
        await self._history.start()
        await self._direct.start()
        await self._decisions.start()

    async def stop(self) -> None:
        """Ends all followers, and closes the index."""
        await self._decisions.stop()
        await self._direct.stop()
        await self._history.stop()

    async def require(self, organisation: str) -> None:
        """Returns once all that there is of an organisation was read. Raises as ``Followers.need``."""
        await self._history.require(organisation)
        await self._direct.require(organisation)

    async def require_issues(self, organisation: str) -> None:
        """The same, with all decisions about issues."""
        await self.require(organisation)
        await self._decisions.require(organisation)

    async def decided(self, organisation: str, sequence: int) -> None:
        """Waits a moment until this replica has the latest decision."""
        await self._decisions.reached(organisation, sequence)

    async def reached(self, organisation: str, sequence: int) -> None:
        """Waits a moment until this replica has what was just written to the history."""
        await self._history.reached(organisation, sequence)

    async def sweep(self) -> None:
        """Removes from the index what streams have not any more, and what is too much."""
        await self._history.sweep()
        await self._direct.sweep()
        await self._decisions.sweep()


def _origin(organisation: str, subject: str) -> tuple[str | None, Collection[RunKind]]:
    """The environment whose runs are at this subject, and of which kinds: what records say of it does not count.

    Pods may publish at that of the history alone.
    """
    match subject.split("."):
        case ["history", owner, environment]:
            kinds = KINDS
        case ["direct", owner, environment]:
            kinds = DIRECT_KINDS
        case ["direct", owner, environment, "calls"]:
            kinds = CALLS
        case _:
            return None, ()
    return (environment if owner == organisation and parse_id(environment) == environment else None), kinds
