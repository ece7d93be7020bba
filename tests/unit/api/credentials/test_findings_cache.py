"""What was found about credentials is remembered while what it was found of is there."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from tests.harness.processes import engine_away
from tests.unit.kubernetes.fake_api_server import FakeApiServer
from tieline_api.app import make_dependencies
from tieline_api.views import status_overlay
from tieline_core.identity.names import CREDENTIAL_TYPE

SPEC = {
    "name": "Shop",
    "domain": "shop.example",
    "authSchemeConfigs": [
        {
            "id": "oauth",
            "type": "oauth2",
            "oauth2": {
                "tokenUrl": "https://shop.example/token",
                "grant": {
                    "password": {"secretRef": {"name": "client"}},
                    "type": "password",
                },
            },
        }
    ],
}


def _obj(kind: str, name: str, version: int, **content: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "acme",
        "uid": f"{kind}-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"apiVersion": "tieline.dev/v1alpha1", "kind": kind, "metadata": metadata, **content}


async def test_of_systems_and_secrets_that_are_gone_nothing_is_remembered(tmp_path: Path) -> None:
    async with FakeApiServer.running() as server, server.client() as kube:
        platform = make_dependencies(kube, engine_away.api_settings(traces_file=str(tmp_path / "traces.db")))
        cluster = platform.cluster
        cluster.secret_informers.follow(["acme"])
        before = len(status_overlay._facts), len(status_overlay._judgements)
        data = {"password": base64.b64encode(b"x").decode()}
        for version in (1, 2, 3):
            secret = _obj("Secret", "client", version, type=CREDENTIAL_TYPE, data=data)
            system = _obj("System", "shop", version, spec=SPEC)
            cluster.secrets.observe(secret)
            cluster.systems.observe(system)
            found = cluster.systems.get("acme", "shop")
            assert found
            status_overlay._facts.of(cluster, "acme", "client")
            status_overlay.system_with_findings(cluster, found)
            assert (len(status_overlay._facts), len(status_overlay._judgements)) == (
                before[0] + 1,
                before[1] + 1,
            )
        cluster.secrets.forget(secret)
        cluster.systems.forget(system)
        assert (len(status_overlay._facts), len(status_overlay._judgements)) == before
        await platform.outgoing.close()
