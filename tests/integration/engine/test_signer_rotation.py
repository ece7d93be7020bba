"""Replacing the key that signs credentials, as docs/operations.md has it, on a real nats-server."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import nats.errors
import pytest

import nats
from tests.harness.processes.nats_server import NatsServer
from tieline_core.engine.accounts import push_account
from tieline_core.engine.streams import StreamLimits, account_limits
from tieline_core.engine.trust import EngineTrust
from tieline_core.identity.ids import new_id
from tieline_engine.credentials import Credentials
from tieline_protocol.event_streams import EventStreams

STREAMS = EventStreams(new_id(), new_id())
LIMITS = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24)


def pod_credentials(trust: EngineTrust) -> Credentials:
    now = datetime.now(UTC)
    return Credentials.parse(trust.pod_credentials(STREAMS, at=now, expires=now + timedelta(days=30)))


async def publishes(engine: NatsServer, credentials: Credentials, run: str) -> bool:
    """Whether a pod with these credentials is let in."""
    try:
        client = await nats.connect(
            engine.url,
            user_jwt_cb=credentials.user_jwt_cb,
            signature_cb=credentials.signature_cb,
            inbox_prefix=STREAMS.inbox,
            allow_reconnect=False,
            max_reconnect_attempts=1,
        )
    except nats.errors.Error:
        return False
    await client.jetstream().publish(STREAMS.event("orders", run), b"x")
    await client.close()
    return True


async def test_pods_work_with_old_and_new_credentials_until_the_old_key_is_taken_out(
    engine: NatsServer,
) -> None:
    """The servers get the accounts anew, and are not restarted."""
    await engine.make_environment(STREAMS, LIMITS)
    old = pod_credentials(engine.trust)
    assert await publishes(engine, old, "run1")
    connected = await engine.pod(STREAMS)

    trust = replace(engine.trust, signer=EngineTrust().signer)
    new = pod_credentials(trust)

    async def push(*previous_signers: str) -> None:
        jwt = trust.environment_jwt(
            STREAMS, account_limits(LIMITS), at=datetime.now(UTC), previous_signers=previous_signers
        )
        system = await engine.client(None, signer=trust.system_users)
        await push_account(system, jwt)
        await system.close()

    await push(engine.trust.signer.public_key)
    assert await publishes(engine, old, "run2")
    assert await publishes(engine, new, "run3")
    await connected.jetstream().publish(STREAMS.event("orders", "run4"), b"x")

    await push()
    assert not await publishes(engine, old, "run5")
    assert await publishes(engine, new, "run6")
    with pytest.raises((nats.errors.Error, OSError)):
        await connected.jetstream().publish(STREAMS.event("orders", "run7"), b"x")
    admin = await engine.client(None, signer=trust.users.of_environment(STREAMS))
    info = await admin.jetstream().stream_info(STREAMS.queue)
    assert info.state.messages == 5, "no event is lost by the rotation"
    await admin.close()
    with suppress(OSError):  # the server has cut it
        await connected.close()
