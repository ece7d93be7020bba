"""People connect every provider of the catalogue on the hosted page."""

from __future__ import annotations

import pytest

from tests.harness.session.proven import chosen_keys, proven_of, record
from tests.integration.catalogue.conftest import KINDS
from tests.integration.catalogue.proof import ON_THE_PAGE, Shown

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("key", chosen_keys(KINDS))
def test_a_provider_works_as_its_entry_says(proven: dict[str, Shown], key: str) -> None:
    shown = proven[key]
    record(key, shown.proven, among=ON_THE_PAGE)
    if shown.failures:
        pytest.fail(f"{key} does not work as its entry says; {shown}", pytrace=False)
    assert set(shown.proven) == proven_of(key, among=ON_THE_PAGE)
