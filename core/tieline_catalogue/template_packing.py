"""Reads the templates of projects among the examples, and packs them into one file.

An example with a file ``template.yaml`` is a template. ``hatch_build.py`` packs them when a wheel is built: this module
needs no model.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

MAX_FILE_BYTES = 64 * 1024
_TEMPLATE = "template.yaml"
_CODE = "integration"
_LOCAL = ("tests", "connections.yaml")


class TemplateError(Exception):
    """An example that makes no template; the message names it."""


def read_templates(folder: Path) -> list[dict[str, Any]]:
    """The templates among the examples of a folder, as ``ProjectTemplate`` has them, in the order of the gallery.

    Raises TemplateError.
    """
    found = [_read(path.parent) for path in sorted(folder.glob(f"*/{_TEMPLATE}"))]
    return sorted(found, key=lambda one: (one["order"], one["key"]))


def pack_templates(folder: Path, target: Path) -> None:
    """Writes the templates among the examples of a folder: the same bytes for the same files."""
    text = json.dumps(read_templates(folder), ensure_ascii=False, separators=(",", ":"))
    target.write_text(text, encoding="utf-8")


def _read(folder: Path) -> dict[str, Any]:
    try:
        head = yaml.safe_load((folder / _TEMPLATE).read_text("utf-8"))
        if not isinstance(head, dict) or not {"key", "order"} <= head.keys():
            raise TypeError("it must be a mapping with a key and an order")
        local = [path for name in _LOCAL for path in _files(folder / name)]
        files = _contents(folder / _CODE, _files(folder / _CODE))
        return {**head, "files": files, "localFiles": _contents(folder, local)}
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise TemplateError(f"{folder.name}/{_TEMPLATE}: {error}") from None


def _files(place: Path) -> list[Path]:
    found = place.rglob("*") if place.is_dir() else [place]
    return [path for path in found if path.is_file() and not _is_left_out(path.relative_to(place.parent))]


def _is_left_out(path: Path) -> bool:
    return path.suffix == ".pyc" or any(part.startswith((".", "__pycache__")) for part in path.parts)


def _contents(root: Path, paths: Iterable[Path]) -> dict[str, str]:
    contents = {}
    for path in sorted(paths):
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"{path.name} has more than {MAX_FILE_BYTES // 1024} KiB")
        contents[path.relative_to(root).as_posix()] = path.read_text("utf-8")
    return contents
