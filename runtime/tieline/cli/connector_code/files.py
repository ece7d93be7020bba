"""The two files of a connector beside the code: ``connectors/shop.json`` and ``connectors/shop.py``."""

import json
import keyword
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tieline.cli.connector_code.descriptions import description_of
from tieline.cli.connector_code.module import HEADER, class_named, module_of
from tieline.cli.connector_code.names import snake_name
from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote.client import Client, segment
from tieline.cli.remote.lookup import find_in_pages
from tieline.connectors.description import FOLDER
from tieline_protocol.files import MAX_FILE_BYTES

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_MOST = 100_000


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What stays when the files are written again."""

    only: Sequence[str] = ()
    """The operations that were named; empty for all of them."""
    plain: bool = False
    """Whether the methods are for plain functions."""


@dataclass(frozen=True, kw_only=True)
class ConnectorFiles:
    """The files of one connector in a project's folder."""

    code: Path
    name: str

    @classmethod
    def of(cls, code: Path, name: str) -> "ConnectorFiles":
        """The files for a connector's name. Raises UsageError for what is no module's name."""
        found = snake_name(name, default="connector")
        if not _NAME.fullmatch(found) or keyword.iskeyword(found):
            raise UsageError(f"{found!r} is no name of a module; give one by --as, such as shop")
        return cls(code=code, name=found)

    @property
    def description(self) -> Path:
        """The JSON file."""
        return self.code / FOLDER / f"{self.name}.json"

    @property
    def source(self) -> Path:
        """The module."""
        return self.code / FOLDER / f"{self.name}.py"

    @property
    def module(self) -> str:
        """The name by which code imports it."""
        return f"{FOLDER}.{self.name}"

    @property
    def class_named(self) -> str:
        """The class with the operations."""
        return class_named(self.name)

    def chosen(self) -> "Choices":
        """What was chosen when the files were written."""
        try:
            found = json.loads(self.description.read_bytes())
            only = [name for name in found.get("only", ()) if isinstance(name, str)]
            return Choices(only=only, plain=found.get("sync") is True)
        except (OSError, ValueError, AttributeError, TypeError):
            return Choices()

    def built(
        self, remote: Client, connector: str, version: str, *, only: Sequence[str], plain: bool
    ) -> dict[Path, str]:
        """What the files hold for a connector's version. Raises CommandError."""
        if self.source.is_file() and HEADER not in self.source.read_text("utf-8", errors="replace")[:2048]:
            raise CommandError(
                f"{self.source} was not written by this command; rename it, or give another name by --as"
            )
        found = find_in_pages(remote, "connector", "connectors", connector)
        path = f"connectors/{found['id']}/versions/{segment(version)}"
        known: Mapping[str, Any] = remote.get(path)
        # Versions never change, and the default one may be another in the next moment.
        path = f"connectors/{found['id']}/versions/{known['id']}"
        actions = _wanted(list(remote.pages(f"{path}/actions", limit=_MOST)), only)
        definitions = list(remote.pages(f"{path}/definitions", limit=_MOST, schemas="true"))
        description = description_of(
            connector=found,
            version=known,
            actions=actions,
            definitions=definitions,
            class_named=self.class_named,
        )
        if only:
            description["only"] = sorted(set(only))
        if plain:
            description["sync"] = True
        texts = {
            self.description: json.dumps(description, indent=1, ensure_ascii=True) + "\n",
            self.source: module_of(description, self.name, plain=plain),
        }
        self._check_sizes(texts, len(actions))
        return texts

    def _check_sizes(self, texts: Mapping[Path, str], operations: int) -> None:
        for path, text in texts.items():
            if (size := len(text.encode())) > MAX_FILE_BYTES:
                raise CommandError(
                    f"{path.name} would have {size:,} bytes with {operations:,} operations, and a file of a project "
                    f"has at most {MAX_FILE_BYTES:,}; name the operations that you use by --operations"
                )


def write(texts: Mapping[Path, str]) -> None:
    """Write files, each as a whole or not at all. Raises CommandError."""
    for path, text in texts.items():
        try:
            path.parent.mkdir(exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _wanted(actions: list[dict[str, Any]], only: Sequence[str]) -> list[dict[str, Any]]:
    if not only:
        return actions
    known = {action["name"] for action in actions}
    if missing := sorted(set(only) - known):
        raise CommandError(
            f"The connector has no operation {', '.join(map(repr, missing[:10]))}; "
            "`tieline connectors search` finds operations",
            ExitCode.NOT_FOUND,
        )
    return [action for action in actions if action["name"] in only]
