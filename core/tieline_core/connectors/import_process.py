"""Running imports in limited child processes, several side by side: memory, CPU and time follow the file's size."""

import asyncio
import math
import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import orjson

from tieline_core import limited_process
from tieline_core.connectors.descriptions.findings import DescriptionTooLarge, UnreadableDescription
from tieline_core.connectors.import_queue import ImportQueue, ImportQueueFull, QueueLimits
from tieline_core.connectors.packing import Map

__all__ = ["MIB", "ImportLimits", "ImportQueueFull", "Importer", "usual_limits"]

MIB = 1024 * 1024
_CGROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
# The server itself, and the uploads that arrive and wait.
_OWN = (192 + 128) * MIB
_LEAST = 192 * MIB
_MODULE = "tieline_core.connectors.child"
# The YAML reader's allocator would take a GiB of address space at its start (in KiB).
_RESERVATIONS = {"MIMALLOC_ARENA_RESERVE": "65536"}
_PAGE = os.sysconf("SC_PAGE_SIZE")
_WATCH_SECONDS = 0.05
# What a description needs: 14 to 16 bytes for each of its own where published ones are dense.
_MEMORY = 64 * MIB
# By format. graphql-core is Python, with an object for each word.
_MEMORY_PER_BYTE = {"openapi": 20, "graphql": 80}
# Descriptions of up to 1.5 MiB count as small, and there is always room for two of them beside larger ones.
_SMALL = 96 * MIB
_RESERVE = 2 * _SMALL
# What the largest descriptions need: 64 MiB of YAML. A reserve must not make them impossible.
_LARGEST = 1024 * MIB
# A description that turns out denser than others gets this many times the memory, once.
_DENSER = 4
# Twenty times what good descriptions need on an idle machine; processor time does not count waiting.
_CPU_SECONDS = 5.0
_CPU_SECONDS_PER_MIB = {"openapi": 1.0, "graphql": 4.0}
# An import that takes longer than this gives way to those that may end sooner.
_GIVES_WAY_AFTER = 1.0
_LAST = 19
_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, kw_only=True)
class ImportLimits:
    """What imports may use."""

    memory: int = 1536 * MIB
    """Bytes that all of them together may really use."""
    cpu_seconds: int = 60
    """The most seconds of CPU that one may use, however large it is."""
    seconds: float = 240.0
    """Seconds from start to end of one."""

    @property
    def reserve(self) -> int:
        """Bytes that large descriptions leave to small ones."""
        return max(0, min(_RESERVE, self.memory - _LARGEST))

    @property
    def largest(self) -> int:
        """Bytes that one may use at most."""
        return self.memory - self.reserve

    def memory_of(self, size: int, format: str = "openapi") -> int:
        """Bytes that a description of ``size`` bytes is expected to need at most."""
        return min(self.largest, _MEMORY + _MEMORY_PER_BYTE[format] * size)

    def cpu_of(self, size: int, format: str = "openapi") -> int:
        """Seconds of CPU for a description of ``size`` bytes."""
        return min(self.cpu_seconds, math.ceil(_CPU_SECONDS + _CPU_SECONDS_PER_MIB[format] * size / MIB))


def usual_limits(cgroups: Sequence[Path] = _CGROUPS) -> ImportLimits:
    """The limits where nothing is configured: no more memory than the container leaves beside this process.

    A child that takes all of a container's memory would take the server with it. Version 2 and version 1 of
    cgroups say it in different files.
    """
    usual = ImportLimits()
    memory = usual.memory
    for cgroup in cgroups:
        with suppress(OSError, ValueError):  # no limit ("max"), or no such file
            memory = min(memory, int(cgroup.read_text()) - _OWN)
    return ImportLimits(memory=max(_LEAST, memory))


class Importer:
    """Imports descriptions in child processes, a bounded number at a time, fair between their owners."""

    def __init__(
        self,
        limits: ImportLimits | None = None,
        *,
        at_once: int = 6,
        waiting: int = 64,
        waiting_of_one: int = 16,
    ) -> None:
        """``waiting`` imports may wait beside those that run, ``waiting_of_one`` of them of one owner."""
        self._limits = limits or usual_limits()
        self._queue = ImportQueue(
            QueueLimits(
                memory=self._limits.memory,
                at_once=at_once,
                at_once_of_one=min(2, at_once),
                waiting=waiting,
                waiting_of_one=waiting_of_one,
                small=_SMALL,
                reserve=self._limits.reserve,
            )
        )
        # Threads of its own: those that wait for children must not take the event loop's.
        self._threads = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="import")

    async def run(self, source: BinaryIO, *, owner: str = "", format: str = "openapi") -> list[Map]:
        """The result, laid out over ConfigMaps, of importing what is in the file ``source``, read from its start.

        ``owner`` is the organisation that it is for: owners take turns. ``format`` is openapi or graphql.
        Raises UnreadableDescription (DescriptionTooLarge when a limit was reached), and ImportQueueFull when too
        many wait already or the machine has no room or memory for a process.
        """
        size = os.fstat(source.fileno()).st_size
        expected = self._limits.memory_of(size, format)
        try:
            async with self._queue.slot(owner, expected):
                return await self._run(source, format, memory=expected, size=size)
        except _MemoryUsedUp:
            if expected >= self._limits.largest:
                raise
        more = min(self._limits.largest, _DENSER * expected)
        async with self._queue.slot(owner, more):
            return await self._run(source, format, memory=more, size=size)

    async def _run(self, source: BinaryIO, format: str, *, memory: int, size: int) -> list[Map]:
        os.lseek(source.fileno(), 0, os.SEEK_SET)
        limits = self._limits
        try:
            process = limited_process.start(
                _MODULE,
                memory,
                limits.cpu_of(size, format),
                format,
                stdin=source.fileno(),
                stdout=subprocess.PIPE,
                variables=_RESERVATIONS,
            )
        except OSError as error:  # no memory or no process left for it
            raise ImportQueueFull(
                f"The import cannot be started ({error.strerror}): try again in a moment"
            ) from None
        watching = asyncio.create_task(_watch(process, memory))
        try:
            async with asyncio.timeout(limits.seconds):
                output, _ = await asyncio.get_running_loop().run_in_executor(
                    self._threads, process.communicate
                )
        except TimeoutError:
            raise DescriptionTooLarge(
                f"The import did not end within {limits.seconds:g} s: split the description"
            ) from None
        finally:
            watching.cancel()
            # Its end is the end of what the thread reads, which waits for it too.
            process.kill()
        if watching.done() and not watching.cancelled() and watching.result():
            raise _MemoryUsedUp
        if process.returncode == -signal.SIGXCPU:
            raise DescriptionTooLarge(
                f"The import was stopped: it used more than {limits.cpu_of(size, format)} s of processor time, "
                "which is what a description of this size may; split it, or remove what repeats"
            )
        if process.returncode == -signal.SIGKILL:
            # Not by _watch, and its own limits end it by other signals: the container's memory was used up.
            raise ImportQueueFull("There is no memory left for the import: try again in a moment")
        if process.returncode != 0:
            raise DescriptionTooLarge(
                "The import was stopped: the description needs more memory than one may use, "
                "or it makes its parser fail; split it, or check it with another tool"
            )
        return _maps(output)


class _MemoryUsedUp(DescriptionTooLarge):
    """The memory that was given was not enough."""

    def __init__(self) -> None:
        super().__init__("The description needs more memory than an import may use: split it")


async def _watch(process: subprocess.Popen[bytes], memory: int) -> bool:
    """Ends the child when it really uses more than ``memory`` (and is True then); address space says little of that."""
    began = time.monotonic()
    gave_way = False
    while process.returncode is None:
        if _resident(process.pid) > memory:
            process.kill()
            return True
        if not gave_way and time.monotonic() - began > _GIVES_WAY_AFTER:
            gave_way = True
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, _LAST)
        await asyncio.sleep(_WATCH_SECONDS)
    return False


def _resident(pid: int) -> int:
    """Bytes of memory that a process really uses; 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _maps(output: bytes) -> list[Map]:
    frames = _frames(output)
    head = orjson.loads(next(frames))
    if head.get("memory"):
        raise _MemoryUsedUp
    if "refused" in head:
        raise (DescriptionTooLarge if head["too_large"] else UnreadableDescription)(head["refused"])
    return [{key: next(frames) for key in keys} for keys in head["maps"]]


def _frames(output: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(output):
        (size,) = _LENGTH.unpack_from(output, start)
        start += _LENGTH.size
        yield output[start : start + size]
        start += size
