"""The API's run history on a real engine, without Kubernetes: what a replica has of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.processes.nats_server import NatsServer
from tieline_api.engine.connection import Engine
from tieline_api.engine.credentials import EnvironmentSigner
from tieline_api.engine.environments import EnvironmentEngines
from tieline_api.engine.followers import Followers
from tieline_api.runs.history import RunHistory
from tieline_api.runs.index import RunIndex
from tieline_api.runs.reading import PREFIX, RunReader
from tieline_api.traces.backends import EmbeddedTraces
from tieline_api.traces.store import Limits


@dataclass
class Replica:
    """What one replica knows of runs."""

    engine: Engine
    environments: EnvironmentEngines
    reader: RunReader
    followers: Followers
    history: RunHistory
    traces: EmbeddedTraces


@asynccontextmanager
async def replica(
    server: NatsServer, folder: Path, *, serves: Callable[[str], bool] = lambda _: True
) -> AsyncIterator[Replica]:
    """A replica with its files in ``folder``."""
    engine = Engine(server.url, str(server.credentials_file()), str(server.api_seed_file()))
    signer = EnvironmentSigner(server.credentials_file(), server.api_seed_file())
    environments = EnvironmentEngines(engine, signer)
    index = RunIndex(folder / "runs.db", max_bytes=64 << 20)
    reader = RunReader(index)
    followers = Followers(engine, reader, prefix=PREFIX, serves=serves)
    traces = EmbeddedTraces(folder / "traces.db", Limits(), engine=engine, serves=serves)
    await engine.start()
    await environments.start()
    await traces.start()
    await followers.start()
    try:
        history = RunHistory(engine, environments, index, followers, traces)
        yield Replica(engine, environments, reader, followers, history, traces)
    finally:
        await followers.stop()
        await traces.stop()
        await environments.stop()
        await engine.stop()
