"""Pods of two environments that share a connection with limits, two replicas of the API, and a provider that counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.counting_provider import Counted, CountingProvider
from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.running_api import RunningApi
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import connect, make_system, make_template
from tests.integration.api.pods import account_token, ask

MAIN = """
import asyncio, os, time
from tieline import Integration, LimitReachedError

integration = Integration()
POD = os.environ["POD"]

@integration.webhook("work")
async def work(ctx, request):
    asked = await request.json()
    until, sent = time.monotonic() + asked["seconds"], []

    async def keep_sending():
        while time.monotonic() < until:
            try:
                answer = await ctx.fetch("shop", "/orders", headers={"X-Pod": POD})
            except LimitReachedError:
                return
            sent.append(answer.status)

    async with asyncio.TaskGroup() as group:
        for _ in range(asked["workers"]):
            group.create_task(keep_sending())
    return {"sent": len(sent), "statuses": sorted(set(sent))}
"""

PODS = 4


@dataclass
class LimitedPods:
    """What the tests drive."""

    client: Client
    connection: dict[str, Any]
    replicas: list[RunningApi]
    pods: list[RunningRuntime]
    provider: CountingProvider

    def limit(self, **limits: Any) -> None:
        """Give the connection other limits, and return once all replicas have them."""
        path = f"/connections/{self.connection['id']}"
        changed = self.client.ok("PUT", path, {"limits": limits})
        assert (changed.get("limits") or {}) == limits
        for pod in self.pods:
            changes = {self._told(replica, pod, limits) for replica in self.replicas}
            for change in changes:
                eventually(
                    f"{change} in the log", lambda pod=pod, change=change: change in pod.log.read_text()
                )

    def _told(self, replica: RunningApi, pod: RunningRuntime, limits: dict[str, Any]) -> str:
        """The change of the connection that a replica tells a pod, once it has these limits."""
        there = Client(replica.url, pod.token, self.client.organisation)

        def change() -> str | None:
            body = ask(there, pod.token).json
            told = body["connections"]["shop"].get("limits") or {}
            is_known = told == ({**limits, "pods": PODS} if limits else {})
            return str(body["changes"][f"connections/{self.connection['id'].lower()}"]) if is_known else None

        return eventually("the limits at a replica", change)

    def work(self, *, seconds: float, workers: int = 20) -> list[dict[str, Any]]:
        """Have all pods send as much as they may, and return what each says."""
        with ThreadPoolExecutor(len(self.pods)) as pool:
            return [one.result() for one in self.begin(pool, seconds=seconds, workers=workers)]

    def begin(
        self, pool: ThreadPoolExecutor, *, seconds: float, workers: int = 20
    ) -> list[Future[dict[str, Any]]]:
        """The same, without waiting for them."""
        body = json.dumps({"seconds": seconds, "workers": workers}).encode()

        def call(pod: RunningRuntime) -> dict[str, Any]:
            answer = http("POST", f"{pod.url}/work", body=body, timeout=90)
            assert answer.status == 200, (answer.body, pod.log.read_text()[-3000:])
            found: dict[str, Any] = json.loads(answer.body)
            return found

        return [pool.submit(call, pod) for pod in self.pods]

    def measure(self, *, seconds: float, workers: int = 20) -> Counted:
        """What arrived while all pods sent as much as they may."""
        self.provider.reset()
        self.work(seconds=seconds, workers=workers)
        return self.provider.counted()


@contextmanager
def limited_pods(
    client: Client,
    *,
    kubectl: Kubectl,
    org: Organisation,
    kubeconfig: Path,
    engine: NatsServer,
    folder: Path,
    seconds: float = 0.0,
) -> Iterator[LimitedPods]:
    """Two environments with two pods each. Every request takes the provider ``seconds``."""
    with ExitStack() as stack:
        provider = stack.enter_context(CountingProvider(folder, seconds=seconds))
        replicas = [stack.enter_context(_replica(folder / f"api-{one}", kubeconfig, engine)) for one in "12"]
        system = make_system(client)
        first, template = make_template(client, system=system["id"])
        connection = connect(client, template, "key")
        client.ok("PUT", f"/connections/{connection['id']}", {"baseUrl": provider.url})
        second, other = make_template(client, system=system["id"])
        body = {"connectionTemplateId": other["connectionTemplateId"]}
        client.ok("POST", f"/connections/{connection['id']}/link", body, status=201)
        for project in (first, second):
            # As many pods as run here.
            patch = json.dumps({"spec": {"runtime": {"replicas": 2}}})
            name = project["id"].lower()
            kubectl(
                "patch", "project.tieline.dev", name, "--type=merge", "-p", patch, namespace=org.namespace
            )
        pods = []
        for number, project in enumerate((first, first, second, second)):
            token = account_token(kubectl, org, project)
            running = RunningRuntime(
                folder=folder / f"pod-{number}",
                code=MAIN,
                token=token,
                variables={
                    "TIELINE_API_URL": replicas[number % 2].internal_url,
                    "TIELINE_EGRESS_ALLOWED": "127.0.0.0/8",
                    "TIELINE_PROJECT_NAME": project["name"],
                    "POD": f"pod-{number}",
                },
            )
            pods.append(stack.enter_context(running))
        yield LimitedPods(client, connection, replicas, pods, provider)


def _replica(folder: Path, kubeconfig: Path, engine: NatsServer) -> RunningApi:
    folder.mkdir()
    return RunningApi(
        kubeconfig=kubeconfig,
        log=folder / "log",
        variables={
            "TIELINE_ENGINE_URL": engine.url,
            "TIELINE_ENGINE_CREDENTIALS_FILE": str(engine.credentials_file()),
            "TIELINE_ENGINE_SIGNER_FILE": str(engine.api_seed_file()),
            "TIELINE_RUNS_FILE": str(folder / "runs.db"),
            "TIELINE_EGRESS_ALLOWED": "127.0.0.0/8",
        },
    )
