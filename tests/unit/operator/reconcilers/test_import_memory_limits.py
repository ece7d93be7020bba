"""Descriptions that wait for their import: one namespace's leave room for those of others."""

import asyncio
from typing import Any

from tieline_core.connectors.import_process import MIB
from tieline_operator.reconcilers.connector_imports import DescriptionImports, ImportRefusal


class Waiting:
    """An importer that never comes to an end."""

    def __init__(self) -> None:
        self.owners: list[str] = []
        self.formats: list[str] = []

    async def run(self, _file: Any, *, owner: str, format: str) -> Any:
        self.owners.append(owner)
        self.formats.append(format)
        await asyncio.Event().wait()


async def test_large_descriptions_of_one_namespace_wait_for_each_other_and_not_others_for_them() -> None:
    importer = Waiting()
    imports = DescriptionImports(importer)  # type: ignore[arg-type]

    async def asked(name: str, size: int, owner: str) -> Any:
        async def read() -> bytes:
            return bytes(size)

        result = await imports.result(name, read, owner=owner)
        await asyncio.sleep(0)
        return result

    assert await asked("first", 40 * MIB, "a") is None
    refused = await asked("second", 40 * MIB, "a")
    assert isinstance(refused, ImportRefusal)
    assert refused.again
    assert await asked("small", MIB, "a") is None
    assert await asked("third", 64 * MIB, "b") is None
    assert await asked("fourth", 64 * MIB, "c") == refused
    assert await asked("fifth", MIB, "c") is None
    assert importer.owners == ["a", "a", "b", "c"]


async def test_the_same_bytes_are_imported_once_for_each_format() -> None:
    importer = Waiting()
    imports = DescriptionImports(importer)  # type: ignore[arg-type]

    async def read() -> bytes:
        return b"{}"

    for described_in in ("openapi", "graphql", "graphql"):
        assert await imports.result("digest", read, owner="a", format=described_in) is None
        await asyncio.sleep(0)
    assert importer.formats == ["openapi", "graphql"]
