"""Pods of an environment as processes on this machine, with a real engine and without the rest of the platform."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nats.aio.client import Client

from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually_async
from tieline_core.engine.streams import StreamLimits, ensure_history
from tieline_core.identity.ids import new_id
from tieline_protocol import run_records
from tieline_protocol.event_streams import EventStreams, history_stream
from tieline_protocol.run_records import RunRecord

LEASE = timedelta(seconds=2)
LIMITS = StreamLimits(queue_bytes=1 << 26, runs_bytes=1 << 26, history_bytes=1 << 26, lease=LEASE)


@dataclass
class EventEnvironment:
    """An environment's streams, its pods, and what its code wrote into ``done``."""

    engine: NatsServer
    platform: Client
    """A client with all rights in the platform's account."""
    admin: Client
    """The same in the environment's account."""
    folder: Path
    code: str
    """Of pods that start from now on."""
    connections: str = "connections: {}\nusers:\n  ann: {user: {externalId: ann, displayName: Ann}}\n"
    streams: EventStreams = field(kw_only=True)
    pods: list[RunningRuntime] = field(default_factory=list)

    @property
    def done(self) -> Path:
        """The file into which code writes a line when it has done something: its path is in the variable DONE."""
        return self.folder / "done"

    def lines(self) -> list[str]:
        return self.done.read_text().splitlines() if self.done.exists() else []

    def pod(
        self,
        *,
        version: str = "v1",
        valid: timedelta = timedelta(hours=6),
        ready: bool = True,
        **variables: str,
    ) -> RunningRuntime:
        """Starts one more pod, and returns once it is ready, if ``ready``."""
        folder = self.folder / f"pod-{len(self.pods)}"
        folder.mkdir()
        self._write_credentials(folder, valid)
        (folder / "connections.yaml").write_text(self.connections)
        runtime = RunningRuntime(
            folder=folder,
            code=self.code,
            token="",
            variables={
                "TIELINE_CONNECTIONS_FILE": str(folder / "connections.yaml"),
                "TIELINE_ENGINE_URL": self.engine.url,
                "TIELINE_ENGINE_CREDENTIALS_FILE": str(folder / "engine.creds"),
                "TIELINE_EVENT_LEASE_SECONDS": f"{LEASE.total_seconds():g}",
                "TIELINE_ORGANISATION_ID": self.streams.organisation,
                "TIELINE_ENVIRONMENT_ID": self.streams.environment,
                "TIELINE_ENVIRONMENT": "production",
                "TIELINE_VERSION": version,
                "DONE": str(self.done),
                **variables,
            },
        )
        self.pods.append(runtime)
        if ready:
            runtime.start()
        else:
            runtime.write_files()
            runtime.spawn()
        return runtime

    def renew_credentials(self, pod: RunningRuntime) -> None:
        """As the operator does."""
        self._write_credentials(pod.folder, timedelta(hours=1))

    def _write_credentials(self, folder: Path, valid: timedelta) -> None:
        now = datetime.now(UTC)
        text = self.engine.trust.pod_credentials(self.streams, at=now, expires=now + valid)
        (folder / "engine.creds").write_text(text)

    async def history(self) -> list[RunRecord]:
        """All records of runs, in the order in which they were stored."""
        jetstream = self.platform.jetstream()
        info = await jetstream.stream_info(history_stream(self.streams.organisation))
        records: list[RunRecord] = []
        for sequence in range(max(info.state.first_seq, 1), info.state.last_seq + 1):
            message = await jetstream.get_msg(history_stream(self.streams.organisation), sequence)
            records.extend(run_records.decode(message.data or b""))
        return records

    async def run(self, identifier: str) -> RunRecord | None:
        """What became of a run."""
        found = [record for record in await self.history() if record.id == identifier]
        return max(found, key=lambda record: record.rank) if found else None

    async def waits(self) -> int:
        """Events that are queued or wait for their time."""
        jetstream = self.admin.jetstream()
        return sum(
            [
                (await jetstream.stream_info(name)).state.messages
                for name in (self.streams.queue, self.streams.later)
            ]
        )

    async def until_written(self, text: str) -> None:
        """Returns once code has written this line."""

        async def is_there() -> bool:
            return text in self.lines()

        await eventually_async(f"written: {text}", is_there, within=60)

    async def until_nothing_waits(self) -> None:
        """Returns once no event is queued or waits."""

        async def none() -> bool:
            return await self.waits() == 0

        await eventually_async("nothing queued", none, within=60)

    def stop(self) -> None:
        for pod in self.pods:
            pod.signal(signal.SIGCONT)
            pod.stop()


async def until_logged(pod: RunningRuntime, text: str) -> None:
    """Returns once a pod's log has this text."""

    async def is_there() -> bool:
        return text in pod.log.read_text()

    async def seen() -> object:
        return pod.log.read_text()[-3000:]

    await eventually_async(f"in the log: {text}", is_there, within=30, seen=seen)


async def event_environment(
    engine: NatsServer, platform: Client, folder: Path, code: str, limits: StreamLimits = LIMITS
) -> EventEnvironment:
    """An environment whose pods run ``code``; none is started yet. Close its client ``admin`` in the end."""
    streams = EventStreams(new_id(), new_id())
    await engine.make_environment(streams, limits)
    await ensure_history(platform.jetstream(), streams.organisation, limits)
    own = await engine.environment(streams)
    return EventEnvironment(engine, platform, own, folder, code, streams=streams)


@asynccontextmanager
async def running_environment(
    engine: NatsServer, folder: Path, code: str, limits: StreamLimits = LIMITS
) -> AsyncIterator[EventEnvironment]:
    """See ``event_environment``; its pods end, and its clients are closed."""
    platform = await engine.admin()
    environment = await event_environment(engine, platform, folder, code, limits)
    try:
        yield environment
    finally:
        environment.stop()
        await environment.admin.close()
        await platform.close()
