"""The demo's addresses are ones at which browsers keep sessions, and they outlive a pod."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from tests.harness.session.waiting import eventually
from tieline_cluster.deployment.kubectl import Kubectl
from tieline_cluster.deployment.service_access import Forwarded, stop


@dataclass
class FakeKubectl:
    """Its port-forward notes that it was started, and ends at once, as when its pod is replaced."""

    notes: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def command(self, *arguments: str) -> list[str]:
        script = f'echo "Forwarding from 127.0.0.1:${{5%:80}} -> 80"; echo started >> {self.notes}'
        return ["sh", "-c", script, "kubectl", *arguments]


@pytest.fixture
def forwarded(tmp_path: Path) -> Iterator[tuple[Forwarded, Path]]:
    notes = tmp_path / "notes"
    yield Forwarded(cast(Kubectl, FakeKubectl(notes)), tmp_path / "forwards"), notes
    stop(tmp_path / "forwards")


def test_the_address_is_at_localhost_and_known_before(forwarded: tuple[Forwarded, Path]) -> None:
    access, _ = forwarded
    address = access.address("tieline-system", "tieline-api")
    assert address.startswith("http://localhost:")
    assert access.address("tieline-system", "tieline-api") == address


def test_forwarding_goes_on_when_a_pod_is_replaced(forwarded: tuple[Forwarded, Path]) -> None:
    access, notes = forwarded
    assert access.url("tieline-system", "tieline-api").startswith("http://localhost:")
    eventually("it was started again", lambda: notes.read_text().count("started") > 1)
