"""Waits in memory, and locally also in a file."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tieline.events.wait_store import (
    AFTER_WAIT_SECONDS,
    LEAST_KEEP_SECONDS,
    RECORD_SECONDS,
    KeptEvent,
    KeptLine,
    OpenWait,
    Outcome,
    Wait,
    approval_seconds,
)
from tieline_protocol.approvals import Approval, wait_name
from tieline_protocol.events import HEADER, EventMetadata
from tieline_protocol.waits import WaitRule

if TYPE_CHECKING:
    from tieline.events.event_file import EventFile  # pods do not need SQLite

WaitRow = Literal["rule", "kept", "wait", "outcome", "approval", "answered", "line"]
_ALL = ""
"""The place of approvals and their outcomes, which outlive their run."""


@dataclass(frozen=True, kw_only=True)
class SavedRow:
    """A row of the file."""

    kind: WaitRow
    place: str
    """The name of a rule, the index of a wait or of an event, the run of an outcome."""
    name: str
    metadata: str
    content: bytes
    expires: float
    saved_at: float
    number: int
    """Orders the rows."""


class MemoryWaits:
    """See WaitStore. None of its methods gives way to other tasks."""

    def __init__(
        self,
        file: "EventFile | None" = None,
        *,
        clock: Callable[[], float] = time.time,
        wake: Callable[[str], None] = lambda run: None,
    ) -> None:
        """``wake`` is called with each run to continue."""
        self._file = file
        self._clock = clock
        self._wake = wake
        self._last = 0
        self._rows: dict[tuple[WaitRow, str], dict[str, SavedRow]] = {}

    def read(self) -> None:
        """Read what earlier processes left in the file."""
        if self._file is not None:
            for row in self._file.wait_rows(now=self._clock()):
                self._rows.setdefault((row.kind, row.place), {})[row.name] = row
                self._last = max(self._last, row.number)

    async def declare(self, rules: Collection[WaitRule]) -> None:
        """See WaitStore."""
        for rule in rules:
            self._save("rule", rule.name, rule.id, content=rule.encode(), seconds=RECORD_SECONDS)

    async def rules(self, name: str) -> Sequence[WaitRule]:
        """See WaitStore."""
        return [WaitRule.decode(row.content) for row in self._live("rule", name)]

    async def may_have_rules(self, name: str) -> bool:
        """See WaitStore."""
        return any(self._live("rule", name))

    async def keep(self, index: str, event: KeptEvent, seconds: float, *, at_least: float = 0.0) -> int:
        """See WaitStore."""
        run = event.metadata.run
        kept = next((row for row in self._live("kept", index) if row.name == run), None)
        if kept is not None:
            return kept.number
        kept_for = max(seconds, at_least, LEAST_KEEP_SECONDS)
        row = self._save("kept", index, run, event.metadata.header(), event.payload, seconds=kept_for)
        return row.number

    async def drop_older(self, index: str, event: KeptEvent) -> None:
        """See WaitStore."""
        for row in self._live("kept", index):
            if event.is_newer_than(_event(row)):
                self._remove("kept", index, row.name)

    async def line(self, index: str) -> KeptLine:
        """See WaitStore."""
        row = next(self._live("line", index), None)
        return KeptLine() if row is None else KeptLine(content=row.content, number=row.number)

    async def keep_line(self, index: str, content: bytes, seconds: float, *, expected: int) -> bool:
        """See WaitStore."""
        if (await self.line(index)).number != expected:
            return False
        self._save("line", index, "", content=content, seconds=seconds)
        return True

    async def find(self, wait: OpenWait) -> KeptEvent | None:
        """See WaitStore."""
        return wait.ended_by([_event(row) for row in self._live("kept", wait.index)])

    async def waits(self, index: str, *, before: int) -> Sequence[Wait]:
        """See WaitStore."""
        rows = [row for row in self._live("wait", index) if row.number < before]
        return [Wait(**json.loads(row.content)) for row in rows]

    async def ask(self, approval: Approval) -> None:
        """See WaitStore."""
        if all(row.name != approval.id for row in self._live("approval", _ALL)):
            seconds = approval_seconds(approval, self._clock())
            self._save("approval", _ALL, approval.id, content=approval.encode(), seconds=seconds)

    def approvals(self) -> list[tuple[Approval, Outcome | None]]:
        """All approvals that are kept, oldest first, with their outcomes."""
        found = [Approval.decode(row.content) for row in self._live("approval", _ALL)]
        return [(one, self._outcome("answered", _ALL, wait_name(one.id))) for one in found]

    async def begin(self, waits: Collection[OpenWait]) -> None:
        """See WaitStore."""
        for wait in waits:
            kept = await self.find(wait)
            if kept is not None:
                await self.decide(wait, Outcome(event=kept))
            if kept is not None or await self.outcome(wait) is not None:
                self._wake(wait.run)
                continue
            content = {"index": wait.index, "run": wait.run, "name": wait.name, "key_hash": wait.key_hash}
            seconds = wait.until - self._clock() + AFTER_WAIT_SECONDS
            self._save("wait", wait.index, _name(wait), content=json.dumps(content).encode(), seconds=seconds)

    async def close(self, wait: Wait) -> None:
        """See WaitStore."""
        self._remove("wait", wait.index, _name(wait))

    async def decide(self, wait: Wait, outcome: Outcome) -> Outcome:
        """See WaitStore."""
        if (first := await self.outcome(wait)) is not None:
            return first
        metadata, payload = "", b""
        if outcome.event is not None:
            metadata, payload = outcome.event.metadata.header(), outcome.event.payload
        kind, place = _outcome_place(wait)
        self._save(kind, place, wait.name, metadata, payload, seconds=RECORD_SECONDS)
        return outcome

    async def outcome(self, wait: Wait) -> Outcome | None:
        """See WaitStore."""
        return self._outcome(*_outcome_place(wait), wait.name)

    def _outcome(self, kind: WaitRow, place: str, name: str) -> Outcome | None:
        row = self._rows.get((kind, place), {}).get(name)
        if row is None:
            return None
        return Outcome(event=_event(row) if row.metadata else None)

    async def wake(self, wait: Wait) -> None:
        """See WaitStore."""
        self._wake(wait.run)

    async def forget(self, run: str, open_waits: Collection[Wait]) -> None:
        """See WaitStore. No attempt is stored twice here."""
        for wait in open_waits:
            await self.close(wait)

    def forget_outcomes(self, run: str) -> None:
        """Remove the outcomes of a run that has ended."""
        for name in list(self._rows.get(("outcome", run), ())):
            self._remove("outcome", run, name)

    def _save(
        self,
        kind: WaitRow,
        place: str,
        name: str,
        metadata: str = "",
        content: bytes = b"",
        *,
        seconds: float,
    ) -> SavedRow:
        self._last += 1
        now = self._clock()
        row = SavedRow(
            kind=kind,
            place=place,
            name=name,
            metadata=metadata,
            content=content,
            expires=now + seconds,
            saved_at=now,
            number=self._last,
        )
        if self._file is not None:
            self._file.save_wait_row(row)
        self._rows.setdefault((kind, place), {})[name] = row
        return row

    def _live(self, kind: WaitRow, place: str) -> Iterator[SavedRow]:
        """What has not expired; the rest is removed."""
        for row in list(self._rows.get((kind, place), {}).values()):
            if row.expires > self._clock():
                yield row
            else:
                self._remove(kind, place, row.name)

    def _remove(self, kind: WaitRow, place: str, name: str) -> None:
        rows = self._rows.get((kind, place), {})
        if rows.pop(name, None) is not None and self._file is not None:
            self._file.remove_wait_row(kind, place, name)
        if not rows:
            self._rows.pop((kind, place), None)


def _outcome_place(wait: Wait) -> tuple[WaitRow, str]:
    return ("outcome", wait.run) if wait.approval is None else ("answered", _ALL)


def _name(wait: Wait) -> str:
    return f"{wait.run} {wait.name}"


def _event(row: SavedRow) -> KeptEvent:
    metadata = EventMetadata.parse({HEADER: row.metadata})
    return KeptEvent(metadata=metadata, payload=row.content, kept_at=row.saved_at)
