"""The audit in a real engine: records get numbers, and neither pods nor the API itself take one back."""

from __future__ import annotations

import json

import nats.errors
import nats.js.errors
import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.integration.engine.test_run_history import LIMITS, eventually
from tests.unit.api.audit.audit_records import record
from tieline_api.audit.log import AuditLog
from tieline_api.engine.connection import Engine
from tieline_core.engine.audit_streams import audit_stream, audit_subject, ensure_audit
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams


async def test_records_are_numbered_and_cannot_be_taken_back(engine: NatsServer) -> None:
    organisation = new_id()
    stream = audit_stream(organisation)
    admin = await engine.admin()
    connection = Engine((engine.url,), engine.credentials_file())
    log = AuditLog(connection)
    await connection.start()
    await log.start()
    # The operator makes the stream after the first record.
    log.add(record(new_id(), organisation))
    jetstream = admin.jetstream()
    await ensure_audit(jetstream, organisation, LIMITS)
    again = record(new_id(), organisation)
    for one in (again, again, record(new_id(), organisation)):
        log.add(one)

    async def stored() -> bool:
        return log.counts["stored"] == 4

    await eventually(stored)
    state = (await jetstream.stream_info(stream)).state
    assert state.messages == 3, "a record that is published again is there once"
    assert state.last_seq - state.first_seq == 2
    with pytest.raises(nats.js.errors.APIError):
        await jetstream.delete_msg(stream, state.first_seq)
    with pytest.raises(nats.js.errors.APIError):
        await jetstream.purge_stream(stream)
    assert (await jetstream.stream_info(stream)).state.messages == 3
    found = await jetstream.get_msg(stream, state.first_seq)
    assert json.loads(found.data or b"")["operation"] == "updateSystem"
    await log.stop()
    await connection.stop()
    await admin.close()


async def test_a_pod_writes_no_records(engine: NatsServer) -> None:
    streams = EventStreams(new_id(), new_id())
    admin = await engine.admin()
    await engine.make_environment(streams, LIMITS)
    await ensure_audit(admin.jetstream(), streams.organisation, LIMITS)
    # With its own credentials, and as somebody who may use all of the environment's account.
    for client in (await engine.pod(streams), await engine.environment(streams)):
        with pytest.raises((nats.errors.Error, nats.js.errors.Error)):
            await client.jetstream(timeout=1).publish(audit_subject(streams.organisation), b"forged")
        await client.close()
    state = (await admin.jetstream().stream_info(audit_stream(streams.organisation))).state
    assert state.messages == 0
    await admin.close()
