"""Modules that main.py needs in order to load, and that neither the project nor the image has."""

import ast
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tieline_protocol.files import MAIN
from tieline_protocol.findings import Finding
from tieline_protocol.python_source import trees
from tieline_protocol.runtime_image import HOLDS, INSTEAD, MODULES

_CONNECTORS = "connectors"
"""The folder of modules that ``tieline connectors add`` writes."""
_CAUGHT = frozenset({"BaseException", "Exception", "ImportError", "ModuleNotFoundError"})


@dataclass(frozen=True, kw_only=True)
class MissingModule(Finding):
    """That a module is missing."""

    module: str
    """The top-level module's name."""


def missing_modules(
    files: Iterable[tuple[str, bytes]], modules: Collection[str] = MODULES
) -> Iterator[MissingModule]:
    """An error for each module that loading main.py would not find; ``modules`` are the image's.

    Followed from main.py through the project's own modules. Imports in functions, in ``try`` with an
    ``except ImportError`` and under ``TYPE_CHECKING`` may fail, and are left out.
    """
    pairs = list(files)
    paths = {path for path, _ in pairs}
    parsed = dict(trees(pairs))
    roots = {path.partition("/")[0].removesuffix(".py") for path in paths}
    waiting, seen = [MAIN], {MAIN}
    reported: set[str] = set()
    while waiting:
        path = waiting.pop(0)
        if path not in parsed:
            continue
        for name, line in _imports(parsed[path], _package(path)):
            root = name.partition(".")[0]
            if root in roots:
                found = [item for item in _files_of(name) if item in paths and item not in seen]
                seen |= set(found)
                waiting += found
            elif root not in sys.stdlib_module_names and root not in modules and root not in reported:
                reported.add(root)
                yield MissingModule(module=root, message=_message(name), filename=path, line=line)


def _message(name: str) -> str:
    root, _, rest = name.partition(".")
    if root == _CONNECTORS:
        connector = rest.partition(".")[0] or "NAME"
        return (
            f'there is no module "{name}": `tieline connectors add {connector}` writes it from an API description that '
            "was imported"
        )
    return (
        f'there is no module "{root}": it is not among the files, and the runtime image holds {HOLDS}; add {root}.py '
        f"if it is yours; {INSTEAD}"
    )


def _imports(tree: ast.Module, package: str) -> Iterator[tuple[str, int]]:
    """Names that are imported while the module is loaded, with their lines."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        match node:
            case ast.Import():
                for alias in node.names:
                    yield alias.name, node.lineno
            case ast.ImportFrom():
                base = _absolute(node, package)
                yield base, node.lineno
                for alias in node.names:
                    yield f"{base}.{alias.name}", node.lineno
            case ast.If():
                waiting += node.orelse if _is_type_checking(node.test) else [*node.body, *node.orelse]
            case ast.Try():
                waiting += [] if any(_catches(handler) for handler in node.handlers) else node.body
                waiting += [*node.orelse, *node.finalbody]
            case ast.With() | ast.For() | ast.While() | ast.ClassDef():
                waiting += node.body
            case _:
                pass


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".") if package else []
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _package(path: str) -> str:
    return path.rpartition("/")[0].replace("/", ".")


def _files_of(name: str) -> list[str]:
    """Files that are loaded for a dotted name: those of its packages, and its own."""
    parts = name.split(".")
    bases = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return [item for base in bases for item in (f"{base}/__init__.py", f"{base}.py")]


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _catches(handler: ast.ExceptHandler) -> bool:
    match handler.type:
        case None:
            return True
        case ast.Tuple(elts=kinds):
            return any(ast.unparse(kind) in _CAUGHT for kind in kinds)
        case kind:
            return ast.unparse(kind) in _CAUGHT
