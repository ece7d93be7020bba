"""The child process of one import: a description on stdin, its packed result on stdout.

``python -m tieline_core.connectors.child <memory bytes> <CPU seconds> <format>``. It limits itself before it reads
anything. The answer is frames of a length (8 bytes, big endian) and that many bytes: first a JSON object,
``{"maps": [[keys]]}``, ``{"refused": …, "too_large": …}`` or ``{"memory": true}`` (it was not enough), then the maps'
values.
"""

import gc
import os
import resource
import struct
import sys
from typing import BinaryIO

import orjson

from tieline_core.connectors.descriptions.findings import DescriptionTooLarge, UnreadableDescription
from tieline_core.connectors.descriptions.importer import MAX_BYTES, import_description
from tieline_core.connectors.packing import MAX_MAPS, pack
from tieline_core.limited_process import yield_to_others

# orjson asks for 17 times what it reads, and uses a fraction of that; the parent watches what is really used.
_RESERVED_PER_BYTE = 18


def main() -> None:
    """Reads, imports, writes."""
    # First of all: an import must not take the processor from those who wait for an answer.
    yield_to_others()
    # A description makes no circles, and the process ends soon: looking for garbage costs a third of its time.
    gc.disable()
    limit(memory=int(sys.argv[1]), cpu=int(sys.argv[2]))
    frames = _answer(sys.argv[3])
    for frame in frames:
        _write(sys.stdout.buffer, frame)
    sys.stdout.buffer.flush()


def limit(*, memory: int, cpu: int) -> None:
    """Sets how much memory and CPU the process may use."""
    reserved = memory + _RESERVED_PER_BYTE * os.fstat(sys.stdin.fileno()).st_size
    resource.setrlimit(resource.RLIMIT_DATA, (reserved, reserved))
    # At the first one comes SIGXCPU, which tells the parent why the process ended.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))


def _answer(format: str) -> list[bytes]:
    try:
        # Held by nobody but its reader, who lets go of it early.
        maps = pack(import_description(sys.stdin.buffer.read(MAX_BYTES + 1), format))
    except UnreadableDescription as refused:
        return [
            orjson.dumps({"refused": str(refused), "too_large": isinstance(refused, DescriptionTooLarge)})
        ]
    except (MemoryError, RecursionError):
        return [orjson.dumps({"memory": True})]
    if len(maps) > MAX_MAPS:
        text = "What the description says is larger than can be stored: split it"
        return [orjson.dumps({"refused": text, "too_large": True})]
    head = orjson.dumps({"maps": [list(content) for content in maps]})
    return [head, *(part for content in maps for part in content.values())]


def _write(stream: BinaryIO, frame: bytes) -> None:
    stream.write(struct.pack(">Q", len(frame)))
    stream.write(frame)


if __name__ == "__main__":
    main()
