"""A process of a storm: keeps tokens as the operator or as the API does, and does what it reads on its input.

``storm_worker.py operator|api KUBECONFIG NAMESPACE CONNECTION``. Lines in: ``go CALLS`` or ``die CALLS`` (which kills
the process once an answer of the provider is there and before it is stored). One line of JSON out for each.
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

from tieline_api.oauth.kept_secrets import KeptSecrets
from tieline_api.store.lookups import CacheLookups
from tieline_api.store.secret_reads import SecretReads
from tieline_api.store.world import World as ApiWorld
from tieline_core.kube import Kube, Resource
from tieline_core.kube.resources import CONNECTIONS, HTTP_ROUTES
from tieline_core.oauth import refreshing
from tieline_core.oauth.egress import Egress
from tieline_core.oauth.keeping import Keeper
from tieline_core.oauth.live_lookups import LiveLookups
from tieline_core.oauth.refreshing import Refresher
from tieline_core.oauth.states import OAuthStates
from tieline_core.oauth.tokens import TokenClient, TokenError
from tieline_operator.lookups import CacheDirectory
from tieline_operator.world import World as OperatorWorld

CLAIM = timedelta(seconds=3)
ITEM = "main"


class Deadly:
    """The Kubernetes port of a process that dies when it is about to store new tokens."""

    def __init__(self, inner: refreshing.Secrets) -> None:
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


async def calls(keeper: Keeper, connection: Mapping[str, Any], number: int) -> Counter[str]:
    """How often which access token came, or which error."""

    async def one() -> str:
        try:
            kept = await keeper.fresh(connection, ITEM)
        except TokenError as error:
            return type(error).__name__
        return kept.tokens.access_token if kept else "none"

    return Counter(await asyncio.gather(*(one() for _ in range(number))))


async def main(kind: str, kubeconfig: str, namespace: str, connection: str) -> None:
    egress = Egress.parse(allowed=["127.0.0.0/8"])
    async with (
        await Kube.connect(kubeconfig=kubeconfig) as kube,
        aiohttp.ClientSession(connector=egress.connector()) as session,
    ):
        world: Any
        if kind == "operator":
            world = OperatorWorld.build(kube, [namespace])
            await world.leave_out_unserved(HTTP_ROUTES)
            lookups: Any = LiveLookups(CacheDirectory(world), kube)
            port: Any = kube
        else:
            world = ApiWorld(kube)
            lookups = CacheLookups(world, SecretReads(kube, world.secrets))
            port = KeptSecrets(kube, world.secrets)
        await world.start()
        await world.synced()
        secrets = Deadly(port)
        keeper = Keeper(
            secrets,
            client=TokenClient(session),
            lookups=lookups,
            states=OAuthStates(kube, seconds=60),
            refresher=Refresher(secrets, claim=CLAIM, poll=0.05),
        )
        obj = await kube.get(CONNECTIONS, connection, namespace)
        print(json.dumps("ready"), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, _, number = line.strip().partition(" ")
            secrets.armed = what == "die"
            print(json.dumps(await calls(keeper, obj, int(number))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
