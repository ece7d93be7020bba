"""A project's folder: where its code, connections and schema of variables are."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tieline_protocol.files import MAIN
from tieline_protocol.project_folders import (
    CODE,
    CONNECTIONS_NAMES,
    SCHEMA_NAMES,
    is_skipped_file,
    is_skipped_folder,
)


class FolderError(Exception):
    """The folder is none of a project; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """What was found."""

    code: Path
    """The folder with main.py: these files are deployed."""
    connections: Path | None
    schema: Path | None

    @property
    def name(self) -> str:
        """What people would call the project."""
        resolved = self.code.resolve()
        return resolved.parent.name if resolved.name == CODE else resolved.name

    def files(self) -> list[tuple[str, bytes]]:
        """The project's files, sorted: without hidden ones and caches, and what is for local runs alone."""
        return [(path.relative_to(self.code).as_posix(), path.read_bytes()) for path in sorted(self.paths())]

    def paths(self) -> Iterator[Path]:
        """The paths of the project's files."""
        own = {self.connections, self.schema}
        for root, folders, names in os.walk(self.code):
            folders[:] = [name for name in folders if not is_skipped_folder(name)]
            for name in names:
                path = Path(root, name)
                if not is_skipped_file(name) and path not in own:
                    yield path


def find(start: Path, *, connections: Path | None = None, schema: Path | None = None) -> Folder:
    """The project in ``start``: the folder with main.py, or one that has it in ``integration/``.

    Connections (``connections.yaml``) and the schema of variables (``variables.schema.json``) are beside main.py or
    in the folder above it, unless they are given. Raises FolderError.
    """
    if not start.is_dir():
        raise FolderError(f"{start} is no folder; name the one that holds the project's {MAIN}")
    code = start
    if not (start / MAIN).is_file() and (start / CODE).is_dir():
        code = start / CODE
    for given in (connections, schema):
        if given is not None and not given.is_file():
            raise FolderError(f"There is no file {given}")
    return Folder(
        code=code,
        connections=connections or _beside(code, CONNECTIONS_NAMES),
        schema=schema or _beside(code, SCHEMA_NAMES),
    )


def _beside(code: Path, names: tuple[str, ...]) -> Path | None:
    above = code.parent if code.name == CODE else code.resolve().parent
    for folder in (code, above):
        for name in names:
            if (folder / name).is_file():
                return folder / name
    return None
