"""Settings of the event engine are checked at the start."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tieline_api.settings import Settings


def test_servers_of_the_engine_are_urls_of_nats() -> None:
    assert Settings().engine_url == ""
    several = Settings(engine_url="nats://a:4222, tls://b.example")
    assert several.engine_url == "nats://a:4222,tls://b.example"
    for wrong in ("a:4222", "http://a", "nats://", "nats://user:secret@a", "nats://a/path"):
        with pytest.raises(ValidationError) as refused:
            Settings(engine_url=wrong)
        assert "nats://tieline-engine:4222" in str(refused.value)


def test_the_index_of_runs_is_beside_the_traces_unless_it_is_said() -> None:
    assert Settings(traces_file="/data/t.db").runs_path == Path("/data/tieline-runs.db")
    assert Settings(traces_file="/data/t.db", runs_file="/other/r.db").runs_path == Path("/other/r.db")
