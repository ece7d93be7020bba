"""The names that ``tieline`` exports stand in three places, which agree."""

import ast
from pathlib import Path

import tieline


def for_type_checkers() -> set[tuple[str, str]]:
    """Module and name of each import under ``TYPE_CHECKING``."""
    tree = ast.parse(Path(tieline.__file__).read_text(encoding="utf-8"))
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    )
    return {
        (str(node.module), one.asname or one.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }


def test_types_names_and_modules_agree() -> None:
    modules = {(module, name) for module, names in tieline._MODULES.items() for name in names}
    assert modules == for_type_checkers()
    assert sorted(name for _, name in modules) == sorted(tieline.__all__)
