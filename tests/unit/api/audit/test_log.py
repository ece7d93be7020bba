"""No write waits for the audit; what cannot be stored is counted and logged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.harness.session.waiting import until
from tests.unit.api.audit.audit_records import record
from tieline_api.audit.log import MOST_ATTEMPTS, MOST_WAITING, MOST_WAITING_EACH, AuditLog
from tieline_api.engine.errors import EngineUnavailableError, NoStreamError


class Engine:
    """Takes records, unless it is away or has no stream of theirs."""

    def __init__(self) -> None:
        self.away = False
        self.without: set[str] = set()
        self.silent: set[str] = set()
        self.broken: set[str] = set()
        self.names: list[str] = []
        self.stored: list[tuple[str, str]] = []
        self.ids: list[str] = []

    async def ask(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        await asyncio.sleep(0)
        if self.away:
            raise EngineUnavailableError
        return await work(self)

    async def publish(self, subject: str, content: bytes, *, headers: dict[str, str]) -> None:
        name, organisation = subject.split(".")
        assert headers["Nats-Expected-Stream"] == f"{name}_{organisation}"
        self.names.append(name)
        if organisation in self.silent:
            raise EngineUnavailableError
        if organisation in self.broken:
            raise ValueError("unexpected")
        if organisation in self.without:
            raise NoStreamError
        self.ids.append(headers["Nats-Msg-Id"])
        self.stored.append((organisation, json.loads(content)["id"]))


@asynccontextmanager
async def started(engine: Engine) -> AsyncIterator[AuditLog]:
    log = AuditLog(engine, pause=lambda _: 0.0)  # type: ignore[arg-type]
    await log.start()
    try:
        yield log
    finally:
        await log.stop()


async def test_records_are_stored_in_their_order_and_once() -> None:
    engine = Engine()
    async with started(engine) as log:
        for number in range(20):
            log.add(record(f"{number}"))
        await until(lambda: log.waiting == 0)
    assert engine.stored == [("O", f"{number}") for number in range(20)]
    assert engine.ids == [f"{number}" for number in range(20)], "by which the engine knows a repetition"
    assert log.counts == {"stored": 20, "dropped": 0, "limited": 0}


async def test_they_wait_while_the_engine_is_away() -> None:
    engine = Engine()
    engine.away = True
    async with started(engine) as log:
        log.add(record())
        for _ in range(10 * MOST_ATTEMPTS):
            await asyncio.sleep(0)
        assert log.waiting == 1
        engine.away = False
        await until(lambda: log.waiting == 0)
    assert log.counts["stored"] == 1


async def test_a_full_queue_refuses_no_write_and_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(Engine())  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        for number in range(MOST_WAITING_EACH + 3):
            log.add(record(f"{number}"))
    assert (log.waiting, log.counts["dropped"]) == (MOST_WAITING_EACH, 3)
    assert caplog.records[0].__dict__["operation"] == "updateSystem"
    log.add(record(organisation="other"))
    assert log.waiting == MOST_WAITING_EACH + 1, "an organisation takes no room from another one"
    for number in range(MOST_WAITING + 10):
        log.add(record(organisation=f"{number}"))
    assert log.waiting == MOST_WAITING


async def test_an_organisation_without_a_stream_delays_no_other() -> None:
    engine = Engine()
    engine.without = {"new"}
    log = AuditLog(engine, pause=lambda _: 3600.0)  # type: ignore[arg-type]
    await log.start()
    log.add(record("first", "new"))
    for number in range(5):
        log.add(record(f"{number}", "O"))
    await until(lambda: log.counts["stored"] == 5)
    assert log.waiting == 1
    await log.stop()
    assert log.counts["dropped"] == 1


async def test_a_stream_that_does_not_answer_delays_no_other() -> None:
    engine = Engine()
    engine.silent = {"slow"}
    log = AuditLog(engine, pause=lambda _: 3600.0)  # type: ignore[arg-type]
    await log.start()
    log.add(record("first", "slow"))
    for number in range(5):
        log.add(record(f"{number}", "O"))
    await until(lambda: log.counts["stored"] == 5)
    assert log.waiting == 1


async def test_an_unexpected_error_does_not_end_the_storing() -> None:
    engine = Engine()
    engine.broken = {"odd"}
    async with started(engine) as log:
        log.add(record("first", "odd"))
        await until(lambda: log.counts["dropped"] == 1)
        log.add(record())
        await until(lambda: log.counts["stored"] == 1)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "audit"),
        ({"caller": "apiKey", "changes": [{}], "sent": [{}]}, "audit"),
        ({"caller": "apiKey", "sent": [{}]}, "access"),
        ({"caller": "endUser", "changes": [{}]}, "access"),
        ({"caller": "", "outcome": "refused"}, "access"),
    ],
)
async def test_what_there_may_be_much_of_has_a_stream_of_its_own(fields: dict[str, Any], name: str) -> None:
    engine = Engine()
    async with started(engine) as log:
        log.add(record(**fields))
        await until(lambda: log.waiting == 0)
    assert engine.names == [name]


async def test_end_users_take_no_room_from_changes() -> None:
    log = AuditLog(Engine())  # type: ignore[arg-type]
    for _ in range(MOST_WAITING_EACH + 1):
        log.add(record(caller="endUser"))
    log.add(record())
    assert (log.waiting, log.counts["dropped"]) == (MOST_WAITING_EACH + 1, 1)


async def test_a_record_that_the_engine_refuses_is_given_up() -> None:
    engine = Engine()
    engine.without = {"O"}
    async with started(engine) as log:
        log.add(record())
        await until(lambda: log.counts["dropped"] == 1)
        engine.without = set()
        log.add(record("next"))
        await until(lambda: log.counts["stored"] == 1)
