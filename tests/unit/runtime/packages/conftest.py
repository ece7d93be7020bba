"""An index for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.runtime.packages.local_index import LocalIndex, local_index


@pytest.fixture
def index() -> Iterator[LocalIndex]:
    with local_index() as served:
        yield served
