"""Progress that people see while pytest captures all else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tieline_cluster.progress import Lines, Progress


class UncapturedProgress(Progress):
    """What takes minutes says so, also inside a fixture."""

    def __init__(self, capture: Any) -> None:
        self._capture = capture

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        with self._capture.global_and_fixture_disabled(), Lines().step(f"\n{what}"):
            yield

    def note(self, what: str) -> None:
        with self._capture.global_and_fixture_disabled():
            Lines().note(what)
