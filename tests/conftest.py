"""One cluster for the whole session, a namespace for each test, and the platform deployed once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tieline_core.ids import ORGANISATION_LABEL, new_id

ROOT = Path(__file__).resolve().parents[1]
_STAGES = ("unit", "cluster", "integration", "e2e")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first: what is cheap to know is known before a cluster starts."""

    def stage(item: pytest.Item) -> int:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        return _STAGES.index(folder) if folder in _STAGES else len(_STAGES)

    items.sort(key=stage)
