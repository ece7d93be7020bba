"""What is known to be proven of the catalogue's entries: read always, written if asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.session import proven
from tieline_catalogue.entry import Proof
from tieline_catalogue.packing import PROVEN

ON_THE_PAGE = (Proof.CONNECT, Proof.REFUSE)


def test_a_record_is_written_only_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / PROVEN).write_text("acme: [refuse, list]\n")
    monkeypatch.delenv(proven.WRITES, raising=False)
    proven.record("acme", [Proof.CONNECT], among=ON_THE_PAGE, folder=tmp_path)
    assert proven.proven_of("acme", among=ON_THE_PAGE, folder=tmp_path) == {Proof.REFUSE}
    monkeypatch.setenv(proven.WRITES, "1")
    proven.record("acme", [Proof.CONNECT], among=ON_THE_PAGE, folder=tmp_path)
    assert proven.proven_of("acme", among=ON_THE_PAGE, folder=tmp_path) == {Proof.CONNECT}
    assert proven.proven_of("acme", among=(Proof.LIST,), folder=tmp_path) == {Proof.LIST}, "others are kept"
