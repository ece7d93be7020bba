"""Four processes with fifty calls each want one expired, rotating token: the provider is asked once."""

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.harness.session.waiting import PATIENCE
from tests.integration.oauth.storms import serving
from tieline_core.kubernetes.client import Kube
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.oauth import token_secret_codec
from tieline_protocol.oauth.token_client import Tokens

pytestmark = pytest.mark.cluster

WORKER = """
import asyncio, json, sys
from datetime import timedelta
import aiohttp
from tieline_core.kubernetes.client import Kube
from tieline_protocol.egress import Egress
from tieline_core.oauth.refresh_coordinator import RefreshCoordinator, TokenRequirement
from tieline_protocol.oauth.token_client import Endpoint, TokenClient

def plan(kind, client, endpoint, namespace):
    if kind == "refresh":
        return {"ask": lambda old: client.refresh(endpoint, refresh_token=old.refresh_token)}
    metadata = {"name": "grant", "namespace": namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "tieline.dev/credential", "metadata": metadata}
    exchange = lambda old: client.exchange(endpoint, code="code1", redirect_uri="https://here.example")
    return {"ask": exchange, "wanted": TokenRequirement(source="code1", blank=secret)}

async def main(kubeconfig, namespace, url, kind):
    connector = Egress.parse(allowed=["127.0.0.0/8"]).connector()
    async with await Kube.connect(kubeconfig=kubeconfig) as kube, aiohttp.ClientSession(connector=connector) as s:
        client, endpoint = TokenClient(s), Endpoint(token_url=url, client_id="me")
        one = RefreshCoordinator(kube, claim=timedelta(seconds=4), poll=0.05)
        how = plan(kind, client, endpoint, namespace)
        found = await asyncio.gather(*(one.fresh(namespace, "grant", **how) for _ in range(50)))
        print(json.dumps([t.access_token for t in found]))

asyncio.run(main(*sys.argv[1:]))
"""


@dataclass
class Provider:
    """Rotates, detects reuse, and can hold the first request until its asker is dead."""

    hold_first: bool = False
    url: str = ""
    asked: list[str] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        used = str(form.get("refresh_token") or form["code"])
        if self.hold_first and not self.held.is_set():
            self.held.set()  # received, and never processed: its asker is killed
            await asyncio.sleep(PATIENCE)
        self.asked.append(used)
        if self.asked.count(used) > 1:
            return web.json_response({"error": "invalid_grant"}, status=400)
        number = len(self.asked) + 1
        answer: dict[str, Any] = {"access_token": f"at{number}", "refresh_token": f"rt{number}"}
        return web.json_response({**answer, "expires_in": 3600})


async def store_expired(kube: Kube, namespace: str) -> None:
    then = datetime.now(UTC) - timedelta(hours=2)
    expired = Tokens(
        access_token="at1", refresh_token="rt1", issued_at=then, expires_at=then + timedelta(hours=1)
    )
    blank = {"type": "tieline.dev/credential", "metadata": {"name": "grant", "namespace": namespace}}
    await kube.create(SECRETS, token_secret_codec.with_tokens(blank, expired))


async def worker(kubeconfig: Path, namespace: str, url: str, kind: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(kubeconfig), namespace, url, kind, stdout=asyncio.subprocess.PIPE
    )


# A first exchange has no Secret to claim yet: it is created with the claim.
@pytest.mark.parametrize(
    ("kind", "killed", "_round"),
    [
        *(("refresh", killed, n) for killed in (False, True) for n in range(1)),
        *(("exchange", killed, n) for killed in (False, True) for n in range(2)),
    ],
)
async def test_a_storm_makes_one_token_request(
    kubeconfig: Path, namespace: str, kind: str, killed: bool, _round: int
) -> None:
    async with (
        await Kube.connect(kubeconfig=str(kubeconfig)) as kube,
        serving(Provider(hold_first=killed)) as provider,
    ):
        if kind == "refresh":
            await store_expired(kube, namespace)
        if killed:
            holder = await worker(kubeconfig, namespace, provider.url, kind)
            await asyncio.wait_for(provider.held.wait(), PATIENCE)
        others = [await worker(kubeconfig, namespace, provider.url, kind) for _ in range(4 - killed)]
        if killed:
            os.kill(holder.pid, signal.SIGKILL)
            await holder.wait()
        answers = await asyncio.wait_for(asyncio.gather(*(one.communicate() for one in others)), PATIENCE)
        assert provider.asked == ["rt1" if kind == "refresh" else "code1"]
        assert [json.loads(out) for out, _ in answers] == [["at2"] * 50] * len(others)
        secret = await kube.get(SECRETS, "grant", namespace)
        assert token_secret_codec.read(secret).tokens.refresh_token == "rt2"
        assert token_secret_codec.read(secret).claimed_by == ""
