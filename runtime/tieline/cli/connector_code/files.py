"""The two files of a connector beside the code: ``connectors/shop.json`` and ``connectors/shop.py``."""

import json
import keyword
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tieline.cli.connector_code.descriptions import description_of
from tieline.cli.connector_code.module import HEADER, class_named, module_of
from tieline.cli.connector_code.names import snake_name
from tieline.cli.connector_code.parts import without_texts
from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.options import read_file
from tieline.cli.remote.client import Client, segment
from tieline.cli.remote.lookup import find_in_pages
from tieline.cli.terminal import note
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
    schema: Path | None = None
    """A GraphQL schema that takes the place of a connector."""
    documents: Sequence[Path] = ()
    """Those with the operations of GraphQL."""


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
            graphql = found.get("graphql") or {}
            return Choices(
                only=only,
                plain=found.get("sync") is True,
                schema=self.code / graphql["schema"] if graphql else None,
                documents=[self.code / name for name in graphql.get("documents", ())],
            )
        except (OSError, ValueError, AttributeError, TypeError, KeyError):
            return Choices()

    def built(
        self, remote: Client, connector: str, version: str, *, only: Sequence[str], plain: bool
    ) -> dict[Path, str]:
        """What the files hold for a connector's version. Raises CommandError."""
        self._check_own()
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
        return self._texts(description, plain=plain)

    def built_from_graphql(
        self, schema: Path, documents: Sequence[Path], *, version: str, plain: bool
    ) -> dict[Path, str]:
        """What the files hold for the operations of GraphQL documents. Raises CommandError."""
        # graphql-core, which nothing else of the command line needs.
        from tieline.cli.connector_code.graphql_operations import description_of_documents  # noqa: PLC0415
        from tieline.cli.connector_code.graphql_schema import operations_of, schema_of  # noqa: PLC0415

        self._check_own()
        read = {str(path): read_file(path) for path in documents}
        found = schema_of(read_file(schema), str(schema))
        try:
            description = description_of_documents(
                found.schema,
                operations_of(found.schema, read),
                name=self.name,
                version=version,
                class_named=self.class_named,
            )
        except RecursionError:
            raise CommandError("The documents are nested too deep") from None
        except (AttributeError, KeyError, TypeError):
            if not found.problems:
                raise
            raise CommandError(f"{schema} has errors: {found.problems[0]}") from None
        if found.problems:
            note(f"{schema} has {len(found.problems)} errors, which are ignored: {found.problems[0]}")
        places = [os.path.relpath(path, self.code) for path in (schema, *documents)]
        description["graphql"] = {"schema": Path(places[0]).as_posix()} | {
            "documents": [Path(place).as_posix() for place in places[1:]]
        }
        return self._texts(description, plain=plain)

    @property
    def documents(self) -> list[Path]:
        """The GraphQL documents beside the module: ``connectors/shop.graphql``, and those in ``connectors/shop``."""
        folder = self.code / FOLDER
        return [
            *folder.glob(f"{self.name}.graphql"),
            *sorted((folder / self.name).glob("*.graphql")),
        ]

    def _check_own(self) -> None:
        if self.source.is_file() and HEADER not in self.source.read_text("utf-8", errors="replace")[:2048]:
            raise CommandError(
                f"{self.source} was not written by this command; rename it, or give another name by --as"
            )

    def _texts(self, description: dict[str, Any], *, plain: bool) -> dict[Path, str]:
        if plain:
            description["sync"] = True
        texts = {
            self.description: written(description),
            self.source: module_of(description, self.name, plain=plain),
        }
        self._check_sizes(texts, len(description["operations"]))
        return texts

    def _check_sizes(self, texts: Mapping[Path, str], operations: int) -> None:
        for path, text in texts.items():
            if (size := len(text.encode())) > MAX_FILE_BYTES:
                raise CommandError(
                    f"{path.name} would have {size:,} bytes with {operations:,} operations, and a file of a project "
                    f"has at most {MAX_FILE_BYTES:,}; name the operations that you use by --operations"
                )


def written(description: Mapping[str, Any]) -> str:
    """The JSON file's text: a line for each operation and schema, without what only readers of the module need."""
    parts = []
    for key, value in description.items():
        if key in ("operations", "schemas"):
            lines = [f"  {_dumped(name)}: {_dumped(plain)}" for name, plain in _plain_items(key, value)]
            parts.append(f" {_dumped(key)}: {{\n" + ",\n".join(lines) + "\n }")
        else:
            parts.append(f" {_dumped(key)}: {_dumped(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def _plain_items(key: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if key == "schemas":
            yield name, without_texts(item)
            continue
        parameters = [_of_schema(one) for one in item.get("parameters", ())]
        answers = {status: _of_schema(body) for status, body in item.get("answers", {}).items()}
        changed = {
            **({"parameters": parameters} if parameters else {}),
            **({"body": _of_schema(item["body"])} if item.get("body") else {}),
            **({"answers": answers} if answers else {}),
        }
        yield name, {**item, **changed}


def _of_schema(holder: Mapping[str, Any] | None) -> Any:
    return {**holder, "schema": without_texts(holder["schema"])} if holder and "schema" in holder else holder


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
