"""An import runs in a process of its own that is stopped when it takes too much."""

import asyncio
import base64
import os
import subprocess
import tempfile
from pathlib import Path

import orjson
import pytest

from tieline_core.connectors.descriptions.findings import DescriptionTooLarge, UnreadableDescription
from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.connectors.import_process import MIB, Importer, ImportLimits, ImportQueueFull, usual_limits
from tieline_core.connectors.packing import (
    MAP_BYTES,
    Map,
    all_lines,
    array_of,
    head_of,
    lines_of,
    pack,
    runs,
    runs_between,
)

WIDE = {
    "openapi": "3.0.0",
    "info": {"title": "Wide", "version": "1"},
    "paths": {f"/p{n}": {"get": {"operationId": f"get{n}", "responses": {}}} for n in range(1200)},
}


async def run(importer: Importer, data: bytes) -> list[Map]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return await importer.run(file)


async def test_the_result_comes_back_in_pieces_that_hold_every_item_in_order() -> None:
    maps = await run(Importer(), orjson.dumps(WIDE))
    head = head_of(maps[0])
    assert (head["title"], head["actions"]) == ("Wide", 1200)
    found, before = runs_between(runs(head, "actions"), 490, 510)
    lines = [line for piece in found for line in lines_of(piece, dict(enumerate(maps)))]
    names = [orjson.loads(line)["name"] for line in lines][490 - before : 510 - before]
    assert names == [f"get{number}" for number in range(490, 510)]


async def test_the_whole_result_can_be_sent_without_being_put_together() -> None:
    maps = await run(Importer(), orjson.dumps(WIDE))
    head = head_of(maps[0])
    pieces = list(array_of(maps, head, "actions"))
    assert len(pieces) > 3
    assert orjson.loads(b"".join(pieces)) == [orjson.loads(line) for line in all_lines(maps, "actions")]
    assert orjson.loads(b"".join(array_of(maps, head, "triggers"))) == []


async def test_what_cannot_be_read_says_so_across_the_process_border() -> None:
    with pytest.raises(UnreadableDescription, match="OpenAPI 4"):
        await run(Importer(), b'{"openapi": "4.0"}')


async def test_a_description_that_needs_too_much_memory_is_refused_as_too_large() -> None:
    big = orjson.dumps({**WIDE, "x-big": [{} for _ in range(3_000_000)]})
    with pytest.raises(DescriptionTooLarge):
        await run(Importer(ImportLimits(memory=220 * MIB)), big)


async def test_an_import_that_takes_too_long_is_ended() -> None:
    with pytest.raises(DescriptionTooLarge, match="did not end"):
        await run(Importer(ImportLimits(seconds=0.05)), orjson.dumps(WIDE))


async def test_a_process_that_dies_is_a_refusal_and_the_next_import_works() -> None:
    with pytest.raises(DescriptionTooLarge, match="more memory"):
        await run(Importer(ImportLimits(memory=8 * MIB)), orjson.dumps(WIDE))
    assert await run(Importer(), orjson.dumps(WIDE))


async def test_few_bytes_that_mean_millions_of_operations_are_refused_as_too_large() -> None:
    parameters = [{"name": f"p{number}", "in": "query"} for number in range(200)]
    methods = {f"M{number}": {"parameters": parameters} for number in range(200)}
    description = {
        "openapi": "3.2.0",
        "paths": {f"/{number}": {"$ref": "#/components/pathItems/all"} for number in range(3000)},
        "components": {"pathItems": {"all": {"additionalOperations": methods}}},
    }
    with pytest.raises(DescriptionTooLarge):
        await run(Importer(ImportLimits(memory=300 * MIB)), orjson.dumps(description))


async def test_a_machine_without_room_for_a_process_says_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(ImportQueueFull, match="try again"):
        await run(Importer(), b"{}")


async def test_only_so_many_imports_wait() -> None:
    importer = Importer(at_once=1, waiting=1)
    results = await asyncio.gather(
        *(run(importer, orjson.dumps(WIDE)) for _ in range(4)), return_exceptions=True
    )
    assert sum(isinstance(result, ImportQueueFull) for result in results) == 2
    assert sum(isinstance(result, list) for result in results) == 2


async def test_the_child_inherits_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cr3t")
    seen = tmp_path / "environment"
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\nenv > {seen}\nexit 1\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr("sys.executable", os.fspath(interpreter))
    with pytest.raises(DescriptionTooLarge):
        await run(Importer(), b"{}")
    assert "s3cr3t" not in seen.read_text()


def test_a_piece_that_no_config_map_holds_is_cut_and_joined_again() -> None:
    noise = base64.b64encode(os.urandom(3_000_000)).decode()
    item = {"id": "1", "name": "Noise", "schema": {"const": noise}}
    maps = pack(ImportResult(digest="0" * 64, openapi="3.1", definitions=[item, item], actions=[item]))
    assert all(sum(map(len, content.values())) <= MAP_BYTES for content in maps)
    (first, second) = runs(head_of(maps[0]), "schemas")
    for piece in (first, second):
        assert len(piece.maps) > 2
        (line,) = lines_of(piece, {number: maps[number] for number in piece.maps})
        assert orjson.loads(line) == item["schema"]
    (action,) = runs(head_of(maps[0]), "actions")
    assert orjson.loads(lines_of(action, dict(enumerate(maps)))[0]) == item


def test_an_import_leaves_the_server_its_memory_in_a_small_container(tmp_path: Path) -> None:
    second, first = files = (tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes")
    assert usual_limits(files).memory == 1536 * MIB
    second.write_text("max\n")
    assert usual_limits(files).memory == 1536 * MIB
    second.write_text(f"{640 * MIB}\n")
    assert usual_limits(files).memory == 320 * MIB
    second.unlink()
    first.write_text("9223372036854771712\n")
    assert usual_limits(files).memory == 1536 * MIB
    first.write_text(f"{1024 * MIB}\n")
    assert usual_limits(files).memory == 704 * MIB


async def test_an_import_that_the_kernel_ends_is_to_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the container's memory ends, which others may have taken."""
    start = subprocess.Popen

    def start_and_kill(*arguments: object, **options: object) -> "subprocess.Popen[bytes]":
        process = start(*arguments, **options)  # type: ignore[call-overload]
        process.kill()
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_kill)
    with pytest.raises(ImportQueueFull):
        await run(Importer(), orjson.dumps(WIDE))
