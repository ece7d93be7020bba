"""Pods and the engine speak TLS, on a real nats-server that the deployed command starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nats.errors
import pytest

from tests.harness.identity.served_certificates import CertificateFolder, impostor
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually, eventually_async
from tieline.events.engine.connection import EngineConnection
from tieline_common.authorities import AuthoritiesFile
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_core.tls import TlsMode
from tieline_engine.client import EngineClient
from tieline_engine.connection import ONCE, ConnectingUser, close, connect, ensure_connected
from tieline_engine.credentials import Credentials
from tieline_operator.tls.certificates import Issued
from tieline_protocol.event_streams import EventStreams

STREAMS = EventStreams(new_id(), new_id())
LIMITS = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24)
GREETING = b'INFO {"server_id":"x","version":"2.15.2","headers":true,"max_payload":1048576,"nonce":"abc"}\r\n'


@pytest.fixture
def served(tmp_path: Path) -> CertificateFolder:
    """What is mounted: the server has a certificate, and pods trust its authority."""
    folder = CertificateFolder(tmp_path)
    folder.trust()
    folder.issue()
    return folder


@pytest.fixture(params=[TlsMode.REQUIRED])
def engine(served: CertificateFolder, request: pytest.FixtureRequest) -> Iterator[NatsServer]:
    with running_nats_server(served.folder, tls=request.param) as server:
        yield server


def user(engine: NatsServer) -> ConnectingUser:
    now = datetime.now(UTC)
    text = engine.trust.pod_credentials(STREAMS, at=now, expires=now + timedelta(days=1))
    return ConnectingUser(lambda: Credentials.parse(text))


async def connects(port: int, made: ConnectingUser, authorities: Path | None) -> bool:
    """Whether a pod that trusts these authorities is connected; without any it speaks plain text."""
    client = EngineClient(AuthoritiesFile(authorities).context if authorities is not None else None)
    scheme = "tls" if authorities is not None else "nats"
    try:
        await connect(client, [f"{scheme}://localhost:{port}"], made, name="pod", **ONCE)
        ensure_connected(client)
    except (nats.errors.Error, OSError, TimeoutError):
        return False
    finally:
        await close(client)
    return True


async def answer_in_plain_text(port: int) -> bytes:
    """What the server tells somebody who does not begin with TLS, until it hangs up."""
    reader, writer = await asyncio.open_connection("localhost", port)
    writer.write(b"PING\r\n")
    answer = b""
    with suppress(ConnectionError):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("engine", [TlsMode.OPTIONAL], indirect=True)
async def test_in_the_window_of_an_upgrade_both_are_served(
    engine: NatsServer, served: CertificateFolder
) -> None:
    await engine.make_account(STREAMS, LIMITS)
    assert await connects(engine.port, user(engine), None)
    assert await connects(engine.port, user(engine), served.authorities)


async def test_no_event_is_lost_while_certificate_and_authority_are_replaced(
    engine: NatsServer, served: CertificateFolder
) -> None:
    """And plain text, old and foreign authorities are refused, while there is nothing but TLS."""
    await engine.make_environment(STREAMS, LIMITS)
    credentials = served.folder / "pod.creds"
    now = datetime.now(UTC)
    credentials.write_text(engine.trust.pod_credentials(STREAMS, at=now, expires=now + timedelta(days=1)))
    pod = EngineConnection(
        urls=[f"tls://localhost:{engine.port}"],
        credentials_file=credentials,
        streams=STREAMS,
        trust=AuthoritiesFile(served.authorities).context,
    )
    running, ended, published = asyncio.create_task(pod.run()), asyncio.Event(), 0
    await pod.connected.wait()

    async def publish() -> None:
        nonlocal published
        while not ended.is_set():
            subject = STREAMS.event("orders", f"run{published}")
            answer = await pod.request(subject, b"x", headers={"Nats-Msg-Id": f"run{published}"})
            assert b"error" not in answer.data
            published += 1

    async def until_reloaded(reloads: int) -> None:
        eventually(
            "reloaded", lambda: engine.log.read_text().count("Reloaded server configuration") >= reloads
        )
        count = published + 20

        async def enough() -> bool:
            return published >= count

        await eventually_async("more events", enough)
        assert await connects(engine.port, user(engine), served.authorities)

    async with asyncio.TaskGroup() as group:
        group.create_task(publish())
        served.issue()
        await until_reloaded(1)
        old, new = served.authority, Issued.authority(datetime.now(UTC))
        served.trust(old, new)
        served.authority = new
        served.issue()
        await until_reloaded(2)
        served.trust(new)
        await until_reloaded(2)
        ended.set()
    assert pod.client.stats["reconnects"] == 0, "a connection that is open stays open"
    pod.client._transport.close()

    async def reconnected() -> bool:
        return pod.client.stats["reconnects"] == 1 and pod.connected.is_set()

    await eventually_async("connected to a server of the new authority", reconnected)
    admin = await engine.environment(STREAMS)
    stored = await admin.jetstream().stream_info(STREAMS.queue)
    assert stored.state.messages == published
    await admin.close()
    with suppress(asyncio.CancelledError):
        running.cancel()
        await running

    assert not (await answer_in_plain_text(engine.port)).startswith(b"INFO")
    served.trust(old)
    assert not await connects(engine.port, user(engine), served.authorities)


@pytest.mark.parametrize("tls", [True, False])
async def test_a_pod_sends_its_credentials_to_no_server_that_it_does_not_trust(
    tmp_path: Path, *, tls: bool
) -> None:
    """Such a server may also say that it speaks no TLS."""
    trusted, foreign = tmp_path / "trusted", tmp_path / "foreign"
    for folder in (trusted, foreign):
        folder.mkdir()
    pod = CertificateFolder(trusted)
    pod.trust()
    engine = NatsServer(folder=tmp_path, port=1, monitoring_port=1)
    async with impostor(foreign, greeting=GREETING, tls=tls) as (port, heard):
        assert not await connects(port, user(engine), pod.authorities)
    assert b"CONNECT" not in heard
    assert b"jwt" not in heard
