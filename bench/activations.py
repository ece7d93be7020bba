"""``python -m bench.activations [count]``: one environment with few and with 10,000 users' activations.

The API, a project's runtime and at the end the operator as processes on this machine, on the API server that
KUBECONFIG names. What is looked for is growth: what a pod costs must follow from the users that it runs for, not from
those that there are.
"""

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.figures import load_average, percentile, table
from bench.local_platform import operator
from bench.prerequisites import cluster
from bench.processes import pod_variables, processor_time, resident, running
from tests.harness.processes import engine_away
from tests.harness.processes.ports import free_port
from tieline_core.identity.ids import ORGANISATION_LABEL, new_id
from tieline_core.identity.names import TOKEN_AUDIENCE, workload_name
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import ACTIVATIONS, END_USERS, NAMESPACES, PROJECTS, SERVICE_ACCOUNTS

COUNT = 10_000
FEW = 10
USED = 2_000
"""Users that the pod runs for, one after the other: more than it keeps."""
CHANGES = 100
_AT_ONCE = 16
_QUIET = 5.0
_ENVIRONMENT = "production"

CODE = """
from tieline import Context, Integration

integration = Integration()


@integration.webhook("region", methods=["GET"])
async def region(ctx: Context) -> str:
    return str(ctx.variables["region"])
"""


@dataclass(frozen=True)
class Place:
    """The environment that is measured."""

    kube: Kube
    namespace: str
    token: str

    async def fill(self, numbers: range) -> None:
        """Users with an activation each."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def create(number: int) -> None:
            async with slots:
                await self.kube.create(END_USERS, self._user(number))
                await self.kube.create(ACTIVATIONS, self.activation(number, "eu"))

        await asyncio.gather(*(create(number) for number in numbers))

    async def change(self, number: int, region: str) -> None:
        """As kubectl does it."""
        patch = {"spec": {"variables": {"region": region}}}
        await self.kube.patch(ACTIVATIONS, f"user-{number}", self.namespace, patch)

    def _user(self, number: int) -> dict[str, Any]:
        metadata = {"name": f"user-{number}", "namespace": self.namespace}
        spec = {"externalId": f"customer-{number}", "displayName": f"Customer {number}"}
        return {
            "apiVersion": END_USERS.api_version,
            "kind": END_USERS.kind,
            "metadata": metadata,
            "spec": spec,
        }

    def activation(self, number: int, region: str) -> dict[str, Any]:
        """The activation of a user."""
        return {
            "apiVersion": ACTIVATIONS.api_version,
            "kind": ACTIVATIONS.kind,
            "metadata": {"name": f"user-{number}", "namespace": self.namespace},
            "spec": {
                "projectRef": {"name": "orders"},
                "environment": _ENVIRONMENT,
                "endUserRef": {"name": f"user-{number}"},
                "variables": {"region": region, "note": "x" * 200},
            },
        }


async def place(kube: Kube) -> Place:
    """A namespace with a project, and the token of its environment."""
    identifier = new_id()
    namespace = f"bench-{identifier.lower()}"
    labels = {ORGANISATION_LABEL: identifier}
    await kube.create(
        NAMESPACES,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}},
    )
    project = {
        "apiVersion": PROJECTS.api_version,
        "kind": PROJECTS.kind,
        "metadata": {"name": "orders", "namespace": namespace},
        "spec": {"name": "Orders", "environments": [{"name": _ENVIRONMENT}]},
    }
    await kube.create(PROJECTS, project)
    account = workload_name("orders", _ENVIRONMENT)
    await kube.create(
        SERVICE_ACCOUNTS,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}},
    )
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"namespace": namespace},
        "spec": {"audiences": [TOKEN_AUDIENCE], "expirationSeconds": 7200},
    }
    made = await kube.create(SERVICE_ACCOUNTS, request, subresource="token", name=account)
    return Place(kube, namespace, made["status"]["token"])


async def measured(there: Place, count: int, folder: Path) -> list[str]:
    """A row: API and pod started anew in front of ``count`` activations."""
    api_port, internal_port, port, health = free_port(), free_port(), free_port(), free_port()
    api, internal = f"http://127.0.0.1:{api_port}", f"http://127.0.0.1:{internal_port}"
    api_env = {
        **engine_away.VARIABLES,
        "TIELINE_LISTEN_HOST": "127.0.0.1",
        "TIELINE_LISTEN_PORT": str(api_port),
        "TIELINE_INTERNAL_PORT": str(internal_port),
        "TIELINE_METRICS_PORT": str(free_port()),
        "TIELINE_TRACES_FILE": str(folder / "traces.db"),
        "TIELINE_RATE_LIMIT": "0",
    }
    pod_env = pod_variables(folder, api=internal, port=port, health=health) | {"OTEL_TRACES_EXPORTER": "none"}
    async with running("tieline_api.main", ready=f"{api}/readyz", env=api_env) as (served, api_start):
        api_memory = resident(served.pid)
        url = f"http://127.0.0.1:{health}/readyz"
        async with (
            running("tieline.server", ready=url, env=pod_env) as (pod, start),
            aiohttp.ClientSession() as client,
        ):
            idle = resident(pod.pid)
            header = {"Authorization": f"Bearer {there.token}"}
            async with client.get(f"{internal}/internal/v1/environment", headers=header) as response:
                size = len(await response.read())

            async def region(number: int) -> tuple[str, float]:
                began = time.perf_counter()
                webhook = f"http://127.0.0.1:{port}/region/users/customer-{number % count}"
                async with client.get(webhook) as response:
                    assert response.status == 200, await response.text()
                    return await response.text(), time.perf_counter() - began

            await region(0)
            first = [(await region(number))[1] for number in range(1, min(count, 200))]
            again = [(await region(number))[1] for number in range(1, min(count, 200))]
            pod_before, api_before = processor_time(pod.pid), processor_time(served.pid)
            for number in range(CHANGES):
                await there.change(number % count, f"r-{number}")
            await asyncio.sleep(1)
            pod_cost = (processor_time(pod.pid) - pod_before) / CHANGES
            api_cost = (processor_time(served.pid) - api_before) / CHANGES
            seen = [await _seen(there, region, round_) for round_ in range(7)]
            for number in range(USED):
                await region(number)
            full = resident(pod.pid)
    return [
        f"{count:,}",
        f"{api_start:.1f}",
        f"{api_memory:.0f}",
        f"{size:,}",
        f"{start:.2f}",
        f"{idle:.0f}",
        f"{full:.0f}",
        f"{percentile(first, 0.5) * 1000:.1f}",
        f"{percentile(again, 0.5) * 1000:.1f}",
        f"{pod_cost * 1000:.1f} / {api_cost * 1000:.1f}",
        f"{percentile(seen, 0.5):.1f}",
    ]


async def _seen(there: Place, region: Any, round_: int) -> float:
    """Seconds from a change to the first run that has it."""
    wanted = f"seen-{round_}-{time.time_ns()}"
    await there.change(1, wanted)
    began = time.perf_counter()
    async with asyncio.timeout(60):
        while True:
            if (await region(1))[0] == wanted:
                break
            await asyncio.sleep(0.02)
    return time.perf_counter() - began


async def looked_at(there: Place, count: int) -> list[str]:
    """A row: the operator in front of activations that it has never seen, and once more."""
    cells = [f"{count:,}"]
    for _ in range(2):
        began = time.perf_counter()
        async with operator(there.namespace) as running:
            await running.quiet(_QUIET)
            elapsed = time.perf_counter() - began - _QUIET
            looked = await running.metric("tieline_operator_reconciles_total", kind=ACTIVATIONS.kind)
            assert looked >= count, f"The operator looked at {looked:g} activations, and there are {count}"
            cells += [
                f"{elapsed:.0f}",
                f"{running.processor_time():.1f}",
                f"{await running.writes():,}",
                f"{running.resident():.0f}",
            ]
    return [*cells, load_average()]


async def main(count: int) -> None:
    """Few, then many; then the operator."""
    async with cluster() as kube:
        there = await place(kube)
        try:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "main.py").write_text(CODE)
                (folder / "token").write_text(there.token)
                await there.fill(range(FEW))
                rows = [await measured(there, FEW, folder)]
                await there.fill(range(FEW, count))
                rows.append(await measured(there, count, folder))
                looks = await looked_at(there, count)
        finally:
            await kube.delete(NAMESPACES, there.namespace)
    headings = [
        "activations",
        "API ready after s",
        "API MiB",
        "configuration, bytes",
        "pod ready after s",
        "pod MiB",
        f"pod MiB after {USED:,} runs",
        "user's first run, p50 ms",
        "the next one, p50 ms",
        "processor ms a change: pod / API",
        "change seen after s, p50",
    ]
    print(table("An environment with many users", headings, rows))
    each = ("all looked at after s", "processor s", "writes", "MiB")
    again = [f"again: {heading}" for heading in each]
    print(table("The operator", ["activations", *each, *again, "load average"], [looks]))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT))
