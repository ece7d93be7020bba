"""A limited process that serves one job after the other, seen from the platform."""

import asyncio
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tieline_core import limited_process
from tieline_core.evaluation.child import HEADER, MAX_FRAME, frame

MIB = 1024 * 1024
_MODULE = "tieline_core.evaluation.child"
# It may write no files.
_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
_ENDING_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a process may use."""

    memory: int = 192 * MIB
    """Bytes of address space, 34 MiB of which an idle process has."""
    cpu_seconds: float = 1.0
    """Seconds of CPU for each answer of a job."""
    seconds: float = 15.0
    """Seconds that an answer may take: a machine with too much to do lets the CPU time pass slowly."""


class End(Enum):
    """How a job ended."""

    DONE = "done"
    """All its answers came."""
    CPU = "cpu"
    """An answer took more CPU than it may."""
    CRASHED = "crashed"
    """The process died, most often because it got no more memory than its limit."""
    KILLED = "killed"
    """Somebody ended the process: the kernel does where the container's memory ends, whoever has taken it."""
    LATE = "late"
    """The time was up before the CPU time was: the machine has too much to do."""
    AGAIN = "again"
    """The process died of what it may have kept from earlier jobs: the job is asked for once more, of a new one."""
    UNAVAILABLE = "unavailable"
    """No process can be started, or the pool closes."""


# Its own limits end it by other signals, or by an error.
_ENDS = {-signal.SIGPROF: End.CPU, -signal.SIGKILL: End.KILLED}


class Worker:
    """A process and the connection to it. It serves until it is closed, or a job ends otherwise than DONE."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: Limits,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self.jobs = 0
        """Jobs that it has served."""

    @classmethod
    async def start(cls, handler: str, limits: Limits) -> "Worker":
        """A new process for a handler of ``child.HANDLERS``. OSError where there is no memory or process left."""
        here, there = socket.socketpair()
        with there:
            try:
                process = limited_process.start(
                    _MODULE,
                    handler,
                    limits.memory,
                    limits.cpu_seconds,
                    stdin=there.fileno(),
                    stdout=there.fileno(),
                    variables=_NO_BYTECODE,
                )
            except OSError:
                here.close()
                raise
        reader, writer = await asyncio.open_connection(sock=here)
        return cls(process, reader, writer, limits)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    async def run(self, request: bytes, answered: Callable[[bytes], None]) -> End:
        """Has a job served; each answer goes to ``answered``."""
        self.jobs += 1
        try:
            async with asyncio.timeout(self._limits.seconds) as patience:
                self._writer.write(frame(request))
                await self._writer.drain()
                while body := await self._frame():
                    answered(body)
                    patience.reschedule(asyncio.get_running_loop().time() + self._limits.seconds)
        except TimeoutError:
            await self.close()
            return End.LATE
        except (OSError, EOFError):
            code = await self.close()
            return _ENDS.get(code, End.CRASHED)
        except BaseException:
            self._process.kill()
            raise
        return End.DONE

    async def _frame(self) -> bytes:
        (size,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        if size > MAX_FRAME:
            raise EOFError
        return await self._reader.readexactly(size)

    async def close(self) -> int:
        """Ends the process, and returns what it ended with: its own end, where it had ended already."""
        self._writer.close()
        return await asyncio.to_thread(self._reaped)

    def _reaped(self) -> int:
        try:
            # It reads the end of its input, or is ending by itself: how it does tells why.
            return self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def kill(self) -> None:
        """Ends the process at once."""
        self._writer.close()
        self._process.kill()
