"""The catalogue of this installation: the packed file of the wheel, or the folder ``catalogue`` of a checkout."""

import json
import re
import zipfile
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol

from tieline_catalogue import packing
from tieline_catalogue.entry import KEY_PATTERN, Category, Entry, Summary

_PACKED = Path(__file__).with_name("catalogue.zip")
_CHECKOUT = Path(__file__).parents[2] / "catalogue"


class UnknownEntryError(LookupError):
    """The catalogue has no entry with that key."""


class _Files(Protocol):
    def summaries(self) -> list[Summary]: ...

    def entry(self, key: str) -> Entry | None: ...


class _Packed:
    def __init__(self, path: Path) -> None:
        self._path = path

    def summaries(self) -> list[Summary]:
        return [Summary.model_validate(item) for item in json.loads(self._read(packing.INDEX) or "[]")]

    def entry(self, key: str) -> Entry | None:
        text = self._read(packing.member(key))
        return Entry.model_validate_json(text) if text else None

    def _read(self, name: str) -> bytes | None:
        with zipfile.ZipFile(self._path) as archive:
            try:
                return archive.read(name)
            except KeyError:
                return None


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def summaries(self) -> list[Summary]:
        return [Summary.model_validate(item) for item in packing.summaries(self._path)]

    def entry(self, key: str) -> Entry | None:
        if key not in packing.keys(self._path):
            return None
        return Entry.model_validate(packing.read_entry(self._path / f"{key}.yaml"))


class Catalogue:
    """Entries of providers, read when they are asked for."""

    def __init__(self, path: Path) -> None:
        """``path`` is a packed catalogue, or a folder with one YAML file an entry."""
        self._files: _Files = _Folder(path) if path.is_dir() else _Packed(path)
        self._entries: dict[str, Entry] = {}

    @cached_property
    def summaries(self) -> Sequence[Summary]:
        """All entries: those that people ask for most first, then by name."""
        return sorted(self._files.summaries(), key=lambda one: (-one.asked, one.name.casefold()))

    @cached_property
    def _searched(self) -> list[tuple[str, Summary]]:
        return [(_text(one), one) for one in self.summaries]

    def search(self, text: str = "", *, category: Category | None = None) -> list[Summary]:
        """Entries that contain all words of the text, of a category; those whose name starts with it first."""
        words = text.casefold().split()
        found = [
            one
            for searched, one in self._searched
            if (category is None or category in one.categories) and all(word in searched for word in words)
        ]
        return sorted(found, key=lambda one: not _begins(one, words)) if words else found

    def get(self, key: str) -> Entry:
        """The entry with a key. Raises UnknownEntryError."""
        if key not in self._entries:
            entry = self._files.entry(key) if re.match(KEY_PATTERN, key) else None
            if entry is None:
                raise UnknownEntryError(
                    f'The catalogue has no entry "{key[:60]}": search it by a part of the name'
                )
            self._entries[key] = entry
        return self._entries[key]


@cache
def catalogue() -> Catalogue:
    """The catalogue of this installation."""
    return Catalogue(_PACKED if _PACKED.exists() else _CHECKOUT)


def _text(one: Summary) -> str:
    return " ".join([one.key, one.name, *one.keywords, *one.categories, one.summary]).casefold()


def _begins(one: Summary, words: Sequence[str]) -> bool:
    return one.key.startswith(words[0]) or one.name.casefold().startswith(words[0])
