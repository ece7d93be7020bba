"""The deployed platform as the benchmarks see it: through its URL, its metrics and the API server."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from bench.prerequisites import cluster
from tieline_core.identity.ids import ORGANISATION_LABEL, new_id
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import NAMESPACES, PODS, ROLE_BINDINGS, SERVICE_ACCOUNTS

SYSTEM_NAMESPACE = "tieline-system"
_WRITES = frozenset({"apply", "create", "patch", "replace", "delete"})


@dataclass(frozen=True)
class Platform:
    """What a benchmark needs."""

    kube: Kube
    http: aiohttp.ClientSession
    url: str
    made: list[str] = field(default_factory=list)

    async def organisation(self) -> tuple[str, str]:
        """A new organisation: its id, and its namespace."""
        identifier = new_id()
        name = f"bench-{identifier.lower()}"
        await self.kube.create(
            NAMESPACES,
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {ORGANISATION_LABEL: identifier}},
            },
        )
        self.made.append(name)
        return identifier, name

    async def administrator(self, namespace: str) -> str:
        """A token of an administrator of the organisation in ``namespace``."""
        place = {"name": "bench", "namespace": namespace}
        await self.kube.create(SERVICE_ACCOUNTS, {"metadata": place})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tieline-admin"}
        subject = {"kind": "ServiceAccount", **place}
        await self.kube.create(ROLE_BINDINGS, {"metadata": place, "roleRef": role, "subjects": [subject]})
        request = {"metadata": place, "spec": {"expirationSeconds": 3600}}
        answer = await self.kube.create(SERVICE_ACCOUNTS, request, name="bench", subresource="token")
        return str(answer["status"]["token"])

    async def operator_address(self) -> str:
        """The IP of the operator's pod."""
        pods = await self.kube.list(
            PODS, SYSTEM_NAMESPACE, label_selector="app.kubernetes.io/name=tieline-operator"
        )
        running = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        return str(running[0]["status"]["podIP"])

    async def operator_metrics(self) -> str:
        """The operator's metrics page."""
        async with self.http.get(f"http://{await self.operator_address()}:9090/metrics") as response:
            return await response.text()

    async def operator_writes(self) -> int:
        """Writes that the operator has made since it started, without its Lease and events."""
        return writes_in(await self.operator_metrics())

    async def clean(self) -> None:
        """Removes the organisations that were made."""
        for name in self.made:
            await self.kube.delete(NAMESPACES, name)


def writes_in(page: str) -> int:
    """Writes that a page of the operator's metrics tells of, without its Lease and events."""
    total = 0.0
    for labels, value in re.findall(
        r"^tieline_operator_requests_total\{([^}]*)\} ([0-9.e+]+)$", page, re.MULTILINE
    ):
        found = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if found.get("verb") in _WRITES and found.get("resource") not in ("leases", "events"):
            total += float(value)
    return int(total)


async def memory_of(platform: Platform, name: str) -> str:
    """Resident memory of a deployment's process, read in its pod."""
    process = await asyncio.create_subprocess_exec(
        os.environ.get("TIELINE_KUBECTL", "kubectl"),
        "exec",
        f"deployment/{name}",
        "-n",
        SYSTEM_NAMESPACE,
        "--",
        "grep",
        "VmRSS",
        "/proc/1/status",
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    found = re.search(rb"(\d+) kB", output)
    return f"{int(found.group(1)) / 1024:.0f} MiB" if found else "unknown"


@asynccontextmanager
async def deployed() -> AsyncIterator[Platform]:
    """The platform that ``.tieline/demo.env`` names."""
    async with (
        cluster() as kube,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http,
    ):
        platform = Platform(kube=kube, http=http, url=os.environ["TIELINE_URL"])
        try:
            yield platform
        finally:
            await platform.clean()
