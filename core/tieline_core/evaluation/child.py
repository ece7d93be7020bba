"""The limited process: jobs on standard input, answers on standard output.

``python -m tieline_core.evaluation.child <handler> <memory bytes> <CPU seconds>``. It limits itself before it imports
anything that evaluates. Each job is a frame; its answers are frames, the last of them empty. Every answer has the CPU
seconds for itself: the kernel ends the process (SIGPROF) when one takes longer, in whatever code it is.
"""

import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import BinaryIO

from tieline_core.limited_process import yield_to_others

HEADER = struct.Struct(">I")
"""The length of a frame in bytes, big endian."""
MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a frame at most."""

Handler = Callable[[bytes], Iterator[bytes]]
"""Gets a job's body, and yields the body of each answer."""

HANDLERS = {
    "variables": "tieline_core.evaluation.variables_jobs",
    "files": "tieline_core.evaluation.files_jobs",
}
"""The modules whose ``answers`` is a Handler."""
_OPEN_FILES = 64


def main() -> None:
    """Serves until standard input ends, which it does with the process that asks."""
    handler, memory, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    limit(memory)
    answers: Handler = import_module(HANDLERS[handler]).answers
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while body := _read(source):
        for answer in _timed(answers(body), seconds):
            sink.write(frame(answer))
            sink.flush()
        sink.write(frame(b""))
        sink.flush()


def limit(memory: int) -> None:
    """Limits memory, files and priority."""
    yield_to_others()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def frame(body: bytes) -> bytes:
    """The frame of a body.

    >>> frame(b"{}")
    b'\\x00\\x00\\x00\\x02{}'
    """
    return HEADER.pack(len(body)) + body


def _timed(answers: Iterator[bytes], seconds: float) -> Iterator[bytes]:
    """The answers, each within ``seconds`` of CPU."""
    while True:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer = next(answers, None)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if answer is None:
            return
        yield answer


def _read(source: BinaryIO) -> bytes:
    head = source.read(HEADER.size)
    return source.read(HEADER.unpack(head)[0]) if len(head) == HEADER.size else b""


if __name__ == "__main__":
    main()
