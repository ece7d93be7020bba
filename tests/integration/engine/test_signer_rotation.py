"""Replacing the key that signs credentials, as docs/operations.md has it, on a real nats-server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nats.errors

import nats
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tieline_core.engine.server_config import EngineConfig
from tieline_core.engine.streams import StreamLimits, ensure_environment
from tieline_core.engine.trust import EngineTrust
from tieline_core.identity.ids import new_id
from tieline_protocol.engine_credentials import Credentials
from tieline_protocol.event_streams import EventStreams

STREAMS = EventStreams(new_id(), new_id())


@dataclass
class RotatedServer(NatsServer):
    """A server that also accepts what previous keys have signed."""

    previous_signers: tuple[str, ...] = ()

    def _config(self) -> EngineConfig:
        accounts = self.trust.accounts(datetime.now(UTC), previous_signers=self.previous_signers)
        return replace(super()._config(), accounts=accounts)


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


async def test_pods_work_with_old_and_new_credentials_until_the_old_key_is_taken_out(tmp_path: Path) -> None:
    with running_nats_server(tmp_path) as first:
        admin = await first.admin()
        limits = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24)
        await ensure_environment(admin.jetstream(), STREAMS, limits)
        await admin.close()
        old = pod_credentials(first.trust)
        assert await publishes(first, old, "run1")

    trust = replace(first.trust, signer=EngineTrust().signer)
    new = pod_credentials(trust)
    engine = RotatedServer(
        folder=tmp_path,
        port=first.port,
        monitoring_port=first.monitoring_port,
        encryption_key=first.encryption_key,
        trust=trust,
        previous_signers=(first.trust.signer.public_key,),
    )
    engine.start()
    try:
        assert await publishes(engine, old, "run2")
        assert await publishes(engine, new, "run3")
        engine.stop()
        engine.previous_signers = ()
        engine.start()
        assert not await publishes(engine, old, "run4")
        assert await publishes(engine, new, "run5")
        admin = await engine.admin()
        info = await admin.jetstream().stream_info(STREAMS.queue)
        assert info.state.messages == 4, "no event is lost by the rotation"
        await admin.close()
    finally:
        engine.stop()
