"""Which files of a project's folder are deployed: the same for the command line and for sources of Flux."""

from collections.abc import Collection, Iterable

from tieline_protocol.files import MAIN

CODE = "integration"
CONNECTIONS_NAMES = tuple(f"connections.{ending}" for ending in ("yaml", "yml", "json"))
SCHEMA_NAMES = tuple(f"variables.schema.{ending}" for ending in ("yaml", "yml", "json"))
_CACHES = frozenset({"__pycache__", "node_modules"})


def code_folder(paths: Collection[str]) -> str:
    """Where the code is in a project's folder with these paths: ``integration/``, or "" for the folder itself."""
    prefix = f"{CODE}/"
    return prefix if MAIN not in paths and any(path.startswith(prefix) for path in paths) else ""


def is_skipped_folder(name: str) -> bool:
    """Whether nothing in folders of this name is deployed."""
    return name.startswith(".") or name in _CACHES


def is_skipped_file(name: str) -> bool:
    """Whether files of this name are not deployed."""
    return name.startswith(".") or name.endswith(".pyc")


def deployed(paths: Iterable[str]) -> list[str]:
    """Of paths in the code's folder those that are deployed, sorted: no hidden ones, caches or files for local runs."""
    found = [path for path in sorted(paths) if not is_skipped(path)]
    for_local_runs = {_first(names, found) for names in (CONNECTIONS_NAMES, SCHEMA_NAMES)}
    return [path for path in found if path not in for_local_runs]


def is_skipped(path: str) -> bool:
    """Whether the file, or a folder that it is in, is hidden or a cache."""
    *folders, name = path.split("/")
    return is_skipped_file(name) or any(is_skipped_folder(folder) for folder in folders)


def _first(names: Iterable[str], paths: Collection[str]) -> str | None:
    return next((name for name in names if name in paths), None)
