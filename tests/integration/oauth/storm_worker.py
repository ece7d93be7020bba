"""A process of a storm: keeps tokens as the operator or as the API does, and does what it reads on its input.

``storm_worker.py operator|api KUBECONFIG NAMESPACE CONNECTION CLAIM`` (seconds). Lines in: ``go CALLS`` or
``die CALLS`` (which kills the process once an answer of the provider is there and before it is stored). One line of
JSON out for each.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import aiohttp

from tieline_api.cluster.cluster_cache import ClusterCache as ApiCluster
from tieline_api.credentials.credential_directory import CredentialLookups
from tieline_api.credentials.credential_secrets import CachingSecretClient
from tieline_api.credentials.secret_reader import SecretReader
from tieline_core.credentials.live_lookups import LiveCredentialLookups
from tieline_core.credentials.token_manager import TokenManager
from tieline_core.kubernetes import Kube, Resource
from tieline_core.kubernetes.resources import CONNECTIONS, HTTP_ROUTES
from tieline_core.oauth import refresh_coordinator
from tieline_core.oauth.refresh_coordinator import RefreshCoordinator
from tieline_core.oauth.state_store import OAuthStateStore
from tieline_operator.cache.cluster_cache import ClusterCache as OperatorCluster
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_protocol.egress import Egress
from tieline_protocol.oauth.token_client import TokenClient, TokenError

ITEM = "main"


class Deadly:
    """The Kubernetes port of a process that dies when it is about to store new tokens."""

    def __init__(self, inner: refresh_coordinator.SecretClient) -> None:
        self._inner = inner
        self.armed = False

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        return await self._inner.get(resource, name, namespace)

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        return await self._inner.create(resource, obj)

    async def replace(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        claimed = "tieline.dev/refresh-claimed-by" in obj["metadata"]["annotations"]
        if self.armed and not claimed:
            os.kill(os.getpid(), signal.SIGKILL)
        return await self._inner.replace(resource, obj)


async def calls(token_manager: TokenManager, connection: Mapping[str, Any], number: int) -> Counter[str]:
    """How often which access token came, or which error."""

    async def one() -> str:
        try:
            kept = await token_manager.fresh(connection, ITEM)
        except TokenError as error:
            return type(error).__name__
        return kept.tokens.access_token if kept else "none"

    return Counter(await asyncio.gather(*(one() for _ in range(number))))


async def main(kind: str, kubeconfig: str, namespace: str, connection: str, claim: str) -> None:
    egress = Egress.parse(allowed=["127.0.0.0/8"])
    async with (
        await Kube.connect(kubeconfig=kubeconfig) as kube,
        aiohttp.ClientSession(connector=egress.connector()) as session,
    ):
        cluster: Any
        if kind == "operator":
            cluster = OperatorCluster.build(kube, [namespace], namespace)
            await cluster.skip_unserved(HTTP_ROUTES)
            lookups: Any = LiveCredentialLookups(CacheDirectory(cluster), kube)
            port: Any = kube
        else:
            cluster = ApiCluster(kube)
            lookups = CredentialLookups(cluster, SecretReader(kube, cluster.secrets))
            port = CachingSecretClient(kube, cluster.secrets)
        await cluster.start()
        await cluster.synced()
        secrets = Deadly(port)
        token_manager = TokenManager(
            secrets,
            client=TokenClient(session),
            lookups=lookups,
            states=OAuthStateStore(kube, seconds=60),
            refresher=RefreshCoordinator(secrets, claim=timedelta(seconds=float(claim)), poll=0.05),
        )
        obj = await kube.get(CONNECTIONS, connection, namespace)
        print(json.dumps("ready"), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, _, number = line.strip().partition(" ")
            secrets.armed = what == "die"
            print(json.dumps(await calls(token_manager, obj, int(number))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
