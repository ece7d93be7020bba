"""Pods and platform both carry the package: it must not bring other packages with it."""

import ast
import sys
from pathlib import Path

import tieline_common


def test_the_package_needs_the_standard_library_alone() -> None:
    imported = {
        name.partition(".")[0]
        for path in Path(tieline_common.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert {"asyncio", "random"} <= imported <= {*sys.stdlib_module_names, tieline_common.__name__}
