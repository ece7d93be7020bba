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
from tieline_api.runs.history import RunHistory
from tieline_api.runs.index import RunIndex
from tieline_api.runs.reading import RunFollowers, RunReader


@dataclass
class Replica:
    """What one replica knows of runs."""

    engine: Engine
    environments: EnvironmentEngines
    reader: RunReader
    followers: RunFollowers
    history: RunHistory


@asynccontextmanager
async def replica(
    server: NatsServer, folder: Path, *, serves: Callable[[str], bool] = lambda _: True
) -> AsyncIterator[Replica]:
    """A replica with its files in ``folder``."""
    engine = Engine((server.url,), server.credentials_file())
    signer = EnvironmentSigner(server.credentials_file(), server.api_seed_file())
    environments = EnvironmentEngines(engine, signer)
    index = RunIndex(folder / "runs.db", max_bytes=64 << 20)
    followers = RunFollowers(engine, index, serves=serves)
    await engine.start()
    await environments.start()
    await followers.start()
    try:
        history = RunHistory(engine, environments, index, followers)
        yield Replica(engine, environments, followers.reader, followers, history)
    finally:
        await followers.stop()
        await environments.stop()
        await engine.stop()
