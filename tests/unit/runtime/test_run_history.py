"""The run history that pods write is bounded while nobody takes it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.api.runs.run_records import record
from tieline.configuration.snapshot import parse
from tieline.events.history import HistoryWriter
from tieline.events.queue import EventsUnavailableError, NoEvents
from tieline.server.code_loader import Tasks
from tieline.server.event_server import EventServer, event_server
from tieline.server.run_history import due_of, schedule_input
from tieline.server.settings import Settings
from tieline_protocol.run_records import RunRecord, decode

MIB = 1024 * 1024


async def test_while_the_engine_is_away_inputs_and_then_records_are_given_up() -> None:
    away, written = True, list[RunRecord]()

    async def write(content: bytes) -> None:
        if away:
            raise EventsUnavailableError("away")
        written.extend(decode(content))

    history = HistoryWriter(write)
    for number in range(10_010):
        history.add(record(status="succeeded", attempt=1, input=b"a" * MIB if number < 40 else None))
    assert history.dropped == 10
    away = False
    writing = asyncio.create_task(history.run())
    await history.flush(20)
    writing.cancel()
    assert len(written) == 10_000
    assert sum(len(one.input or b"") for one in written) == 32 * MIB
    history.add(record(status="succeeded", attempt=1, input=b"a" * MIB))
    assert history.dropped == 10


def test_what_was_given_up_is_in_the_metrics(tmp_path: Path) -> None:
    settings = Settings.from_environment(
        {
            "TIELINE_ENGINE_URL": "nats://127.0.0.1:1",
            "TIELINE_ENGINE_CREDENTIALS_FILE": str(tmp_path / "none"),
            "TIELINE_CONNECTIONS_FILE": str(tmp_path / "none"),
            "TIELINE_ORGANISATION_ID": "organisation",
            "TIELINE_ENVIRONMENT_ID": "environment",
        }
    )
    server = event_server(settings, Tasks())
    server.history.dropped = 3
    _, read = server.gauges()["tieline_run_records_dropped_total"]
    assert read() == 3
    assert not EventServer(Tasks(), NoEvents()).gauges()


@pytest.mark.parametrize("setting", [{"keepInputs": "yes"}, {"keepInputs": None}, {}, None])
def test_inputs_are_kept_where_the_setting_says_so(setting: object) -> None:
    assert parse({"settings": {"keepInputs": True}}).keep_inputs
    assert not parse({"settings": setting}).keep_inputs


def test_a_due_time_is_read_as_it_was_written() -> None:
    due = datetime(2026, 11, 24, 9, tzinfo=UTC)
    assert due_of(schedule_input(due)) == due
    for wrong in (b"", b"[]", b'{"due": 1}', b'{"due": "2026-11-24T09:00:00"}', b"\xff"):
        with pytest.raises(ValueError, match="The input of a schedule is"):
            due_of(wrong)
