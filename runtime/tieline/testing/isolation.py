"""What a project runs in for one test: modules of its own, and an event loop in a thread of its own."""

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from tieline.errors import CodeError
from tieline.server.code_loader import Tasks, load
from tieline_packages.archive import PackagesError
from tieline_packages.local import installed_folder

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for a thread that waits for them, so that tests need no plugin for async ones."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tieline-project", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], *, timeout: float) -> T:
        """The result of ``work``; raises TimeoutError after ``timeout`` seconds."""
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, timeout), self._loop).result()

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


@contextmanager
def loaded(code: Path) -> Iterator[tuple[ModuleType, Tasks]]:
    """main.py as a module, with what it registers; its modules are imported anew each time."""
    code = code.resolve()
    path = sys.path[:]
    _forget(code)
    try:
        tasks = load(code, _packages(code))
        yield sys.modules["main"], tasks
    finally:
        sys.path[:] = path
        _forget(code)


def _packages(code: Path) -> Path | None:
    """The packages of the code's lock, as pods have them. Raises CodeError."""
    try:
        return installed_folder(code)
    except PackagesError as error:
        raise CodeError(f"The packages cannot be installed: {error}") from error


def _forget(code: Path) -> None:
    sys.modules.pop("main", None)
    # Texts: a process has thousands of modules, and making a path of each takes longer than most tests.
    begin = f"{code}{os.sep}"
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith(begin) and ".venv" not in file.removeprefix(begin).split(os.sep):
            del sys.modules[name]
