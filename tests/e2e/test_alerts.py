"""The alerts over what real pods say: a platform without trouble raises none."""

from __future__ import annotations

import pytest

from tests.harness.cluster.deployed_platform import Platform
from tests.harness.cluster.ha_deployment import PARTS
from tests.harness.cluster.metric_pages import alerts_at_rest, metric_pages
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e


def test_a_platform_at_rest_raises_no_alert(platform: Platform) -> None:
    for part in PARTS:
        eventually(f"metrics of {part}", lambda part=part: metric_pages(platform.kubectl, part))
    firing = lambda: alerts_at_rest(platform.kubectl)  # noqa: E731
    eventually("no alert", lambda: firing() == set(), seen=firing)
