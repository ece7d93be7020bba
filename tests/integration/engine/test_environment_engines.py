"""The API's connections to environments' accounts: bounded, made when needed, and never closed under a request."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually_async
from tieline_api.engine import environments as pool
from tieline_api.engine.connection import Engine
from tieline_api.engine.credentials import EnvironmentSigner
from tieline_api.engine.environments import MOST_CONNECTIONS, EnvironmentEngines
from tieline_api.engine.errors import EngineFullError, EngineUnavailableError, NoStreamError
from tieline_api.engine.new_streams import with_streams
from tieline_api.engine.waiting_limits import WaitingLimits
from tieline_core.engine.accounts import push_account
from tieline_core.engine.publisher import publish_event
from tieline_core.engine.streams import StreamLimits, account_limits
from tieline_core.engine.trust import EngineTrust
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import EventMetadata
from tieline_protocol.nkeys import KeyKind, KeyPair

LIMITS = StreamLimits(
    queue_bytes=1 << 20, later_bytes=1 << 16, runs_bytes=1 << 20, dead_letters_bytes=1 << 20
)


def new_environment() -> EventStreams:
    return EventStreams(new_id(), new_id())


async def made(engine: NatsServer) -> EventStreams:
    """A new environment with its account and streams."""
    streams = new_environment()
    await engine.make_environment(streams, LIMITS)
    return streams


@asynccontextmanager
async def engines(
    server: NatsServer,
    *,
    most: int = MOST_CONNECTIONS,
    idle_seconds: float = 180.0,
    seed: Path | None = None,
    url: str | None = None,
) -> AsyncIterator[EnvironmentEngines]:
    """Connected to the platform's account."""
    platform = Engine((url or server.url,), server.credentials_file())
    signer = EnvironmentSigner(server.credentials_file(), seed or server.api_seed_file())
    found = EnvironmentEngines(platform, signer, most=most, idle_seconds=idle_seconds)
    await platform.start()
    await found.start()
    try:
        await until(lambda: platform.connected)
        yield found
    finally:
        await found.stop()
        await platform.stop()


async def until(is_so: Callable[[], bool]) -> None:
    async def ask() -> bool:
        return await asyncio.to_thread(is_so)

    await eventually_async("it", ask)


async def publish(
    found: EnvironmentEngines, streams: EventStreams, *, delay: float = 0, size: int = 2
) -> str:
    metadata = EventMetadata(run=new_id(), kind="event", task="t", queued_at=time.time())
    at = datetime.fromtimestamp(time.time() + delay, UTC) if delay else None
    await found.of(streams).ask(
        lambda jetstream: publish_event(jetstream, streams, metadata, bytes(size), at=at, seconds=5)
    )
    return metadata.run


def connections_of(server: NatsServer, accounts: Sequence[str]) -> list[str]:
    """The accounts, of these, of all clients that the server has."""
    url = f"http://{server.host}:{server.monitoring_port}/connz?auth=1&limit=1000"
    with urllib.request.urlopen(url, timeout=5) as answer:
        found = [one.get("account", "") for one in json.load(answer)["connections"]]
    return [account for account in found if account in accounts]


async def test_what_the_api_does_in_an_environment(engine: NatsServer) -> None:
    streams = await made(engine)
    async with engines(engine) as found:
        environment = found.of(streams)
        run = await publish(found, streams)
        message = await environment.first_at(streams.queue, streams.event("*", run))
        assert message is not None
        assert await environment.message(streams.queue, message.sequence) == message
        assert await environment.delete(streams.queue, message.sequence)
        assert not await environment.delete(streams.queue, message.sequence)
        assert await environment.message(streams.queue, message.sequence) is None
        waiting = await publish(found, streams, delay=3600)
        assert await environment.purge(streams.later, streams.waiting(waiting)) == 1
        pod = await engine.pod(streams)
        told = await pod.subscribe(streams.control)
        await pod.jetstream().publish(streams.dead(run), b"letter")
        await environment.tell(streams.control, {"run": run})
        assert json.loads((await told.next_msg(timeout=5)).data) == {"run": run}
        letter = await environment.first_at(streams.dead_letters, streams.dead(run))
        assert letter is not None
        assert letter.data == b"letter"
        assert await environment.purge(streams.dead_letters, streams.dead(run)) == 1
        assert await environment.first_at(streams.dead_letters, streams.dead(run)) is None
        await pod.close()
        assert found.connections == 1


async def test_a_request_to_each_of_a_hundred_environments_leaves_a_bounded_number_of_connections(
    engine: NatsServer,
) -> None:
    every = [await made(engine) for _ in range(100)]
    accounts = [engine.trust.environment_account(streams) for streams in every]
    async with engines(engine) as found:
        await asyncio.gather(*(publish(found, streams) for streams in every))
        assert found.connections <= MOST_CONNECTIONS
        # The server notices a moment later that a connection was closed.
        await until(lambda: 0 < len(connections_of(engine, accounts)) <= MOST_CONNECTIONS)
        for streams in every:
            await publish(found, streams)
        assert found.connections <= MOST_CONNECTIONS
        await until(lambda: 0 < len(connections_of(engine, accounts)) <= MOST_CONNECTIONS)
        info = await found.of(every[0]).stream_info(every[0].queue)
        assert info is not None
        assert info["state"]["messages"] == 2
    await until(lambda: connections_of(engine, accounts) == [])


async def test_the_longest_unused_connection_is_closed_first_and_none_that_is_used(
    engine: NatsServer,
) -> None:
    first, second, third, fourth = [await made(engine) for _ in range(4)]
    async with engines(engine, most=2) as found:
        await publish(found, second)
        async with found.using(first) as used:
            await publish(found, third)
            await publish(found, fourth)
            assert used.is_connected
            async with found.using(first) as again:
                assert again is used
            async with found.using(fourth):
                # All are in use: who comes now waits for one of them.
                waiting = asyncio.create_task(publish(found, second))
                await asyncio.sleep(0.2)
                assert not waiting.done()
            await waiting
            assert used.is_connected
        assert found.connections == 2


async def test_who_gets_no_connection_in_time_is_told_so(
    engine: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "TIMEOUT", 0.3)
    first, second = await made(engine), await made(engine)
    async with engines(engine, most=1) as found:
        async with found.using(first):
            with pytest.raises(EngineUnavailableError):
                await publish(found, second)
        await publish(found, second)


async def test_one_connection_is_made_for_all_who_ask_at_once(engine: NatsServer) -> None:
    streams = await made(engine)
    account = engine.trust.environment_account(streams)
    async with engines(engine) as found:
        await asyncio.gather(*(publish(found, streams) for _ in range(50)))
        assert await asyncio.to_thread(connections_of, engine, [account]) == [account]


async def test_a_connection_that_nobody_uses_is_closed_after_a_while(engine: NatsServer) -> None:
    used, unused = await made(engine), await made(engine)
    accounts = [engine.trust.environment_account(streams) for streams in (used, unused)]
    async with engines(engine, idle_seconds=0.5) as found:
        await publish(found, unused)
        async with found.using(used) as client:
            await until(lambda: connections_of(engine, accounts) == accounts[:1])
            assert client.is_connected
        await until(lambda: connections_of(engine, accounts) == [])
        await publish(found, unused)


async def test_a_connection_is_renewed_before_its_user_expires(
    engine: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_RENEW_SECONDS", 0.2)
    streams = await made(engine)
    async with engines(engine) as found:
        async with found.using(streams) as first:
            await asyncio.sleep(0.3)
            async with found.using(streams) as second:
                assert second is not first
            assert first.is_connected
        await until(lambda: first.is_closed)


async def test_an_environment_is_not_there_until_it_was_deployed(
    engine: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="tieline")
    streams = new_environment()
    async with engines(engine) as found:
        with pytest.raises(NoStreamError) as refused:
            await publish(found, streams)
        assert refused.value.status == 409
        with pytest.raises(NoStreamError):
            publish(found, streams).send(None)  # it waits for nothing: the server is not asked again at once
        # There is nothing to read or to remove.
        assert await found.of(streams).first_at(streams.queue, streams.event("*", "run1")) is None
        assert await found.of(streams).purge(streams.runs, streams.steps("run1")) == 0
        assert found.connections == 0
        await engine.make_account(streams, LIMITS)

        async def is_known() -> bool:
            try:
                await found.of(streams).stream_info(streams.queue)
            except NoStreamError:
                return False
            return True

        await eventually_async("the account", is_known)
        with pytest.raises(NoStreamError):
            await publish(found, streams)
        await engine.make_environment(streams, LIMITS)
        await publish(found, streams)
    assert streams.environment in caplog.text
    for secret in (engine.trust.api.seed, "eyJ"):
        assert secret not in caplog.text


async def test_an_account_that_is_taken_away_is_noticed(engine: NatsServer) -> None:
    streams = await made(engine)
    async with engines(engine) as found:
        await publish(found, streams)
        none = StreamLimits(queue_bytes=1 << 20)
        other = EngineTrust(
            operator=engine.trust.operator, system=engine.trust.system, account=engine.trust.account
        )
        jwt = other.environment_jwt(streams, account_limits(none), at=datetime.now(UTC))
        system = await engine.client(None, signer=engine.trust.system_users)
        await push_account(system, jwt)
        await system.close()

        async def is_refused() -> bool:
            try:
                await publish(found, streams)
            except EngineUnavailableError:
                return False
            except NoStreamError:
                return True
            return False

        await eventually_async("it to be refused", is_refused)


async def test_a_key_file_that_comes_late_or_is_replaced_is_read(engine: NatsServer, tmp_path: Path) -> None:
    seed = tmp_path / "signer.seed"
    first, second, third = [await made(engine) for _ in range(3)]
    async with engines(engine, seed=seed) as found:
        with pytest.raises(EngineUnavailableError):
            await publish(found, first)
        for wrong in ("no seed", KeyPair.generate(KeyKind.USER).seed, "\N{SNOWMAN}"):
            seed.write_text(wrong)
            with pytest.raises(EngineUnavailableError):
                await publish(found, new_environment())
        seed.write_text(KeyPair.generate(KeyKind.ACCOUNT).seed)
        with pytest.raises(NoStreamError):
            await publish(found, second)
        seed.write_text(f"{engine.trust.api.seed}\n")
        await publish(found, third)

        async def both_work() -> bool:
            try:
                await publish(found, first)
                await publish(found, second)
            except (EngineUnavailableError, NoStreamError):
                return False
            return True

        await eventually_async("the others", both_work)


async def test_an_engine_that_is_away_is_not_asked_and_works_again(tmp_path: Path) -> None:
    with running_nats_server(tmp_path) as server:
        streams, other = await made(server), await made(server)
        async with engines(server) as found:
            await publish(found, streams)
            server.kill()
            await until(lambda: not found._platform.connected)
            for one in (streams, other) * 50:
                with pytest.raises(EngineUnavailableError) as refused:
                    publish(found, one).send(None)  # it waits for nothing
                assert refused.value.status == 503
            assert found.connections == 0
            server.start()
            await until(lambda: found._platform.connected)
            await publish(found, streams)
            await publish(found, other)


async def test_after_the_end_nothing_connects(engine: NatsServer) -> None:
    streams = await made(engine)
    async with engines(engine) as found:
        async with found.using(streams) as client:
            opening = asyncio.create_task(publish(found, new_environment()))
            await asyncio.sleep(0.1)
            await found.stop()
            assert client.is_closed
        with pytest.raises((EngineUnavailableError, NoStreamError)):
            await opening
        with pytest.raises(EngineUnavailableError):
            await publish(found, streams)
        assert found.connections == 0


async def test_new_events_are_refused_while_too_much_waits(engine: NatsServer) -> None:
    streams = await made(engine)
    async with engines(engine) as found:
        limits = WaitingLimits(found, seconds=0.5)
        await limits.require_room(streams)
        waiting = await publish(found, streams, delay=3600, size=LIMITS.later_bytes)
        # Within the time that an answer counts it may become more.
        await limits.require_room(streams)
        await asyncio.sleep(0.6)
        with pytest.raises(EngineFullError) as refused:
            await limits.require_room(streams)
        assert refused.value.status == 503
        assert await found.of(streams).purge(streams.later, streams.waiting(waiting)) == 1
        await asyncio.sleep(0.6)
        await limits.require_room(streams)


async def test_how_much_waits_is_asked_once_for_many_events(engine: NatsServer) -> None:
    streams = await made(engine)
    watching = await engine.environment(streams)
    asked = await watching.subscribe(f"$JS.API.STREAM.INFO.{streams.later}")
    await watching.flush()
    async with engines(engine) as found:
        limits = WaitingLimits(found)
        await asyncio.gather(*(limits.require_room(streams) for _ in range(20)))
        for _ in range(20):
            await limits.require_room(streams)
    assert (await asked.next_msg(timeout=5)).data == b""
    with pytest.raises(TimeoutError):
        await asked.next_msg(timeout=0.3)
    await watching.close()


@pytest.mark.parametrize("delay", [0, 60])
async def test_the_first_event_of_an_environment_is_stored_once_its_streams_are_made(
    engine: NatsServer, delay: float
) -> None:
    streams = new_environment()
    await engine.make_account(streams, LIMITS)
    async with engines(engine) as found:
        storing = asyncio.create_task(
            with_streams(found.of(streams), streams, lambda: publish(found, streams, delay=delay), seconds=60)
        )
        await until(lambda: bool(connections_of(engine, [engine.trust.environment_account(streams)])))
        await engine.make_environment(streams, LIMITS)
        run = await storing
        stream = streams.later if delay else streams.queue
        subject = streams.waiting(run) if delay else streams.event("t", run)
        assert await found.of(streams).first_at(stream, subject) is not None


async def test_whoever_publishes_is_told_to_come_again_where_no_operator_makes_streams(
    engine: NatsServer,
) -> None:
    streams = new_environment()
    await engine.make_account(streams, LIMITS)
    async with engines(engine) as found:
        with pytest.raises(EngineUnavailableError) as refused:
            await with_streams(found.of(streams), streams, lambda: publish(found, streams), seconds=0.3)
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "2")
        unknown = new_environment()
        with pytest.raises(NoStreamError):
            await with_streams(found.of(unknown), unknown, lambda: publish(found, unknown))


async def test_no_pod_of_the_environment_hears_what_the_api_is_answered(engine: NatsServer) -> None:
    streams = await made(engine)
    heard: list[str] = []

    async def note(message: Msg) -> None:
        heard.append(message.subject)

    pod, all_rights = await engine.pod(streams), await engine.environment(streams)
    await pod.subscribe(f"{streams.inbox}.>", cb=note)
    subjects: list[str] = []

    async def note_all(message: Msg) -> None:
        subjects.append(message.subject)

    await all_rights.subscribe("_INBOX_API.>", cb=note_all)
    await pod.flush()
    await all_rights.flush()
    async with engines(engine) as found:
        run = await publish(found, streams)
        assert await found.of(streams).first_at(streams.queue, streams.event("t", run)) is not None
    await pod.flush()
    await all_rights.flush()
    assert subjects, "a control: the answers went there"
    assert heard == []
    await pod.close()
    await all_rights.close()
