"""A project with an environment whose runs tests report or queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client as Nats

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.engine_objects import (
    make_streams,
    report,
    with_engine,
)
from tests.integration.api.objects import MAIN, make_project
from tests.integration.api.pods import account_token
from tests.unit.api.runs.run_records import NOW
from tieline_api.use_cases.run_actions import time_of
from tieline_core.engine.publisher import publish_event
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord, encode


@dataclass
class Deployed:
    """A project with an environment that is deployed, and its streams."""

    client: Client
    engine: NatsServer
    project: dict[str, Any]
    streams: EventStreams

    @property
    def path(self) -> str:
        return f"/projects/{self.project['id']}/runs"

    @property
    def environment(self) -> str:
        return self.streams.environment

    def report(self, *records: RunRecord) -> None:
        report(self.engine, self.streams.organisation, self.environment, *records)
        self.until_there(*(one.id for one in records))

    def did(self, kubectl: Kubectl, org: Organisation, *records: RunRecord) -> Answer:
        """What a pod reports of direct runs, and the API's answer."""
        pod = Client(self.client.url, account_token(kubectl, org, self.project), org.id)
        return pod.at(
            "/internal/v1/runs", method="POST", raw=encode(records), Content_Type="application/json"
        )

    def until_there(self, *runs: str) -> None:
        eventually("the runs", lambda: set(runs) <= set(self.ids("first=200")))

    def ids(self, query: str = "") -> list[str]:
        return [run["id"] for run in self.client.ok("GET", f"{self.path}?{query}")["items"]]

    def run(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.ok("GET", f"{self.path}/{run}")
        return found

    def status(self, run: str) -> str:
        return str(self.run(run)["status"])

    def queue(self, metadata: EventMetadata, payload: bytes = b"{}", delay: float = 0) -> None:
        """What a pod does that publishes an event."""

        async def publish(client: Nats) -> None:
            at = time_of(metadata.queued_at + delay) if delay else None
            await publish_event(client.jetstream(), self.streams, metadata, payload, at=at, seconds=5)

        with_engine(self.engine, publish, self.streams, pod=True)


def deploy(client: Client, engine: NatsServer) -> Deployed:
    project = make_project(client)
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    streams = make_streams(engine, client.organisation, project["environments"][0]["id"])
    return Deployed(client, engine, project, streams)


def bury(deployed: Deployed, *dead: RunRecord) -> None:
    """Reports runs as dead, with a dead letter each."""
    deployed.report(*dead)

    async def publish(client: Nats) -> None:
        for run in dead:
            metadata = EventMetadata(run=run.id, kind="event", task="order.created", queued_at=NOW)
            headers = {"Tieline-Event": metadata.header()}
            await client.jetstream().publish(deployed.streams.dead(run.id), b"{}", headers=headers)

    with_engine(deployed.engine, publish, deployed.streams, pod=True)
