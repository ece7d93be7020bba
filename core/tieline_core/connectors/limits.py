"""Running imports in limited child processes: memory, CPU and time, and only so many at once."""

import asyncio
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import orjson

from tieline_core.connectors.findings import TooMuch, Unreadable
from tieline_core.connectors.packing import Map

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
_LENGTH = struct.Struct(">Q")
# What an interpreter needs to start and to find its modules; nothing that could be a secret.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


class Busy(Exception):  # noqa: N818  (says what is the case, not that something broke)
    """More imports wait than can be served soon; try again."""


@dataclass(frozen=True, kw_only=True)
class ImportLimits:
    """What one import may use."""

    memory: int = 1536 * MIB
    """Bytes that it may really use, and ask for beside what its parser reserves."""
    cpu_seconds: int = 60
    """Seconds of CPU."""
    seconds: float = 120.0
    """Seconds from start to end."""


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
    """Imports descriptions in child processes, a bounded number at a time."""

    def __init__(self, limits: ImportLimits | None = None, *, at_once: int = 1, waiting: int = 16) -> None:
        self._limits = limits or usual_limits()
        self._gate = asyncio.Semaphore(at_once)
        self._places = at_once + waiting

    async def run(self, source: BinaryIO) -> list[Map]:
        """The result, laid out over ConfigMaps, of importing what is in the file ``source``, read from its start.

        Raises Unreadable (TooMuch when a limit was reached), and Busy when too many wait already or the machine
        has no room for a process.
        """
        if self._places <= 0:
            raise Busy("Too many imports are running: try again in a moment")
        self._places -= 1
        try:
            async with self._gate:
                return await self._run(source)
        finally:
            self._places += 1

    async def _run(self, source: BinaryIO) -> list[Map]:
        os.lseek(source.fileno(), 0, os.SEEK_SET)
        limits = self._limits
        try:
            # Not by the event loop: uvloop copies this process' page tables for it, tens of milliseconds.
            process = subprocess.Popen(  # noqa: ASYNC220, S603  (2 ms; our own module)
                [sys.executable, "-m", _MODULE, str(limits.memory), str(limits.cpu_seconds)],
                stdin=source.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_RESERVATIONS | {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                start_new_session=True,
            )
        except OSError as error:  # no memory or no process left for it
            raise Busy(f"The import cannot be started ({error.strerror}): try again in a moment") from None
        watching = asyncio.create_task(_watch(process, limits.memory))
        try:
            async with asyncio.timeout(limits.seconds):
                output, _ = await asyncio.to_thread(process.communicate)
        except TimeoutError:
            raise TooMuch(
                f"The import did not end within {limits.seconds:g} s: split the description"
            ) from None
        finally:
            watching.cancel()
            # Its end is the end of what the thread reads, which waits for it too.
            process.kill()
        if process.returncode != 0:
            raise TooMuch(
                "The import was stopped: the description needs more memory or time than one may use, "
                "or it makes its parser fail; split it, or check it with another tool"
            )
        return _maps(output)


async def _watch(process: subprocess.Popen[bytes], memory: int) -> None:
    """Ends the child when it really uses more than ``memory``; address space says little about that."""
    while process.returncode is None:
        if _resident(process.pid) > memory:
            process.kill()
            return
        await asyncio.sleep(_WATCH_SECONDS)


def _resident(pid: int) -> int:
    """Bytes of memory that a process really uses; 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _maps(output: bytes) -> list[Map]:
    frames = _frames(output)
    head = orjson.loads(next(frames))
    if "refused" in head:
        raise (TooMuch if head["too_large"] else Unreadable)(head["refused"])
    return [{key: next(frames) for key in keys} for keys in head["maps"]]


def _frames(output: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(output):
        (size,) = _LENGTH.unpack_from(output, start)
        start += _LENGTH.size
        yield output[start : start + size]
        start += size
