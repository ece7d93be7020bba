"""Checks the files of projects, without holding up those who ask.

Python's parser holds the interpreter's lock, and takes a thousand bytes of memory for one byte of some code. So
limited processes read the code, one file after the other.
"""

import asyncio
import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tieline_core.connectors.descriptions import findings as descriptions
from tieline_core.connectors.webhooks import Interface, Webhook, assembled
from tieline_core.evaluation.pool import EvaluationBusy, Pool
from tieline_core.evaluation.worker import MIB, End, Limits
from tieline_core.project_files.deploy_findings import MAX_FINDINGS, check_metadata
from tieline_core.resources.project_versions import FileFinding
from tieline_core.severity import Severity
from tieline_protocol.package_lock import lock_digest
from tieline_protocol.runtime_image import REQUIREMENTS

Pairs = Sequence[tuple[str, bytes]]

# 1 MiB of usual code takes 0.6 s and 75 MiB.
_LIMITS = Limits(memory=384 * MIB, cpu_seconds=5.0, seconds=30.0)
_BATCH_BYTES = 2 * MIB
_MAX_MESSAGE = 2048
# After so many files that took too much, the others are not read.
_STRIKES = 3
# What may wait: for one organisation, and for all of them.
_WAITING_EACH = 64
_WAITING_BYTES_EACH = 32 * MIB
_WAITING_BYTES = 64 * MIB

_TOO_COSTLY = (
    "reading this code takes more than 5 s, or too much memory: split the file, and keep data in files that are not "
    "Python"
)
_NOT_READ = "not read, because other files take too much: correct those first"


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What a project's files hold."""

    findings: tuple[FileFinding, ...]
    """What is wrong with them, at most MAX_FINDINGS; an error refuses a deploy."""
    templates: Mapping[str, tuple[str, int]]
    """The connection templates that the code names, with the first file and line that does."""
    interface: Interface
    """What the files offer to others."""
    lock: str | None = None
    """The digest of the lock of the packages that the code needs; None where it needs none."""


class FilesChecker:
    """Reads files in limited processes, for all organisations."""

    def __init__(self, pool: Pool | None = None) -> None:
        self._pool = pool or Pool("files", _LIMITS)
        self._waiting: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    async def check(self, tenant: str, files: Pairs, labels: Mapping[str, str]) -> Analysis:
        """What the files hold. Raises EvaluationBusy when it cannot be had now.

        ``tenant`` is the organisation's namespace; organisations take turns.
        """
        pairs = sorted(files)
        code = [pair for pair in pairs if pair[0].endswith(".py")]
        return _analysis(pairs, labels, await self._read(tenant, code) if code else [])

    async def close(self) -> None:
        """Ends the processes."""
        await self._pool.close()

    async def _read(self, tenant: str, code: Pairs) -> "list[_Read]":
        size = sum(len(content) for _, content in code)
        full = self._waiting[tenant] >= _WAITING_EACH or self._bytes[tenant] + size > _WAITING_BYTES_EACH
        if self._waiting[tenant] and (full or self._bytes.total() + size > _WAITING_BYTES):
            raise EvaluationBusy("Too many files wait to be checked: try again in a moment")
        job = _Job(self._pool, tenant, code, asyncio.get_running_loop().create_future())
        self._waiting[tenant] += 1
        self._bytes[tenant] += size
        try:
            self._pool.submit(job)
            return await job.future
        finally:
            # Releases the files of a caller that has given up: its job stays in the queue, empty.
            job.code = ()
            self._waiting[tenant] -= 1
            self._bytes[tenant] -= size
            if not self._waiting[tenant]:
                del self._waiting[tenant], self._bytes[tenant]


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What a process said of one file."""

    finding: FileFinding | None = None
    templates: Sequence[tuple[str, int]] = ()
    declared: Sequence[Webhook | descriptions.ImportFinding] = ()
    events: Sequence[str] | None = ()
    """Tasks for events; None where they cannot be seen."""

    @classmethod
    def of(cls, path: str, result: Mapping[str, Any]) -> "_Read":
        declared = [
            Webhook(name=name, methods=tuple(methods), description=text, tool=tool, input_schema=schema)
            for name, methods, text, tool, schema in result["webhooks"]
        ]
        unseen = [
            descriptions.ImportFinding(text, Severity.WARNING, location)
            for text, location in result["unseen"]
        ]
        finding = result["finding"]
        return cls(
            finding=_error(path, finding[0], finding[1]) if finding else None,
            templates=[(name, line) for name, line in result["templates"]],
            declared=[*declared, *unseen],
            events=result["events"],
        )


@dataclass(eq=False)
class _Job:
    """The code of one project, for the pool."""

    pool: Pool
    tenant: str
    code: Pairs
    future: "asyncio.Future[list[_Read]]"
    read: list[_Read] = field(default_factory=list)
    strikes: int = 0

    def request(self) -> bytes | None:
        """The files that are left, as many as make a batch; none once nobody waits any more."""
        if self.future.done():
            return None
        batch: list[tuple[str, str]] = []
        size = 0
        for path, content in self.code[len(self.read) :]:
            if batch and size + len(content) > _BATCH_BYTES:
                break
            batch.append((path, base64.b64encode(content).decode()))
            size += len(content)
        return orjson.dumps({"files": batch})

    def answered(self, body: bytes) -> None:
        """What is in the next file."""
        if self.future.done():
            return
        self.read.append(_Read.of(self.code[len(self.read)][0], orjson.loads(body)))

    def ended(self, end: End) -> None:
        """The file that was not answered is at fault, or cannot be read now."""
        if end is End.AGAIN or self.future.done():
            return
        is_complete = len(self.read) == len(self.code)
        if end in (End.CPU, End.CRASHED) and not is_complete:
            self._strike()
        elif end is not End.DONE and not is_complete:
            self.future.set_exception(
                EvaluationBusy("The files of the project cannot be checked right now: try again in a moment")
            )
            return
        if len(self.read) == len(self.code):
            self.future.set_result(self.read)
        else:
            self.pool.submit(self)

    def _strike(self) -> None:
        self.strikes += 1
        self.read.append(_Read(finding=_error(self.code[len(self.read)][0], _TOO_COSTLY)))
        if self.strikes == _STRIKES:
            self.read += [_Read(finding=_error(path, _NOT_READ)) for path, _ in self.code[len(self.read) :]]


def _analysis(pairs: Pairs, labels: Mapping[str, str], read: Sequence[_Read]) -> Analysis:
    templates: dict[str, tuple[str, int]] = {}
    for (path, _), one in zip((pair for pair in pairs if pair[0].endswith(".py")), read, strict=True):
        for name, line in one.templates:
            templates.setdefault(name, (path, line))
    found = [*check_metadata(pairs, labels), *(one.finding for one in read if one.finding)]
    return Analysis(
        findings=tuple(found[:MAX_FINDINGS]),
        templates=templates,
        interface=assembled(pairs, (item for one in read for item in one.declared), events=_events(read)),
        lock=next((lock_digest(content) for path, content in pairs if path == REQUIREMENTS), None),
    )


def _events(read: Sequence[_Read]) -> Sequence[str] | None:
    """The tasks for events of all files; None where those of one cannot be seen."""
    if any(one.events is None or one.finding is not None for one in read):
        return None
    return sorted({name for one in read for name in one.events or ()})


def _error(path: str, message: str, line: int | None = None) -> FileFinding:
    return FileFinding(
        filename=path[:512] or None, line=line, severity=Severity.ERROR, message=message[:_MAX_MESSAGE]
    )
