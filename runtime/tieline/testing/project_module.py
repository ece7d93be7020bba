"""Loads a project's code for one test, and forgets it afterwards."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tieline.server.code_loader import Tasks, load


@contextmanager
def loaded(code: Path) -> Iterator[tuple[ModuleType, Tasks]]:
    """main.py as a module, with what it registers; its modules are imported anew each time."""
    code = code.resolve()
    path = sys.path[:]
    _forget(code)
    try:
        tasks = load(code)
        yield sys.modules["main"], tasks
    finally:
        sys.path[:] = path
        _forget(code)


def _forget(code: Path) -> None:
    sys.modules.pop("main", None)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(code) and ".venv" not in Path(file).relative_to(code).parts:
            del sys.modules[name]
