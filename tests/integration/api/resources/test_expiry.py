"""A credential whose time has come is gone for REST at once, and then from the spec, by the hand that made it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import PATIENCE, eventually_async
from tests.integration.api.conftest import Client, Server
from tests.integration.api.objects import API_KEY, make_template, stored, wait_for
from tests.integration.api.pods import account_token, ask
from tieline_api.cluster.writer import Writer
from tieline_api.gc.expiry_gc import ExpiredCredentialCollector
from tieline_core.identity.ids import credential_item_id, format_time
from tieline_core.kubernetes import Kube

pytestmark = pytest.mark.cluster

PAST = format_time(datetime.now(UTC) - timedelta(minutes=5))
LATER = format_time(datetime.now(UTC) + timedelta(hours=5))


def credential(identifier: str, expires: str | None = None) -> dict[str, Any]:
    values = {"type": "string", "data": {"string": {"value": "s3cr3t"}}}
    return {
        "id": identifier,
        "authSchemeConfig": API_KEY,
        "credential": {**values, **({"expiresAt": expires} if expires else {})},
    }


class Connected:
    """A connection with two credentials, one of which has expired."""

    def __init__(self, client: Client, kubectl: Kubectl, org: Organisation, server: Server) -> None:
        self.client, self.kubectl, self.org, self.server = client, kubectl, org, server
        self.project, template = make_template(client)
        body = {
            "connectionTemplateId": template["connectionTemplateId"],
            "connection": {
                "name": "Shop",
                "credentials": [credential("old", PAST), credential("good", LATER)],
            },
        }
        self.id = client.ok("POST", "/connections", body, status=201)["id"]

    def ids_in_rest(self) -> list[str]:
        """The ids as the manifest has them; clients get a ULID for each."""
        known = {credential_item_id(self.id, name): name for name in ("old", "good")}
        shown = self.client.ok("GET", f"/connections/{self.id}")["credentials"]
        return [known[one["id"]] for one in shown]

    def ids_in_spec(self) -> list[str]:
        spec = stored(self.kubectl, self.org, "connection", self.id)["spec"]
        return [one["id"] for one in spec["credentials"]]

    def operator_tells(self) -> None:
        status = {"status": {"credentials": [{"id": "old", "errors": ["expired"], "expired": True}]}}
        self.kubectl(
            "patch",
            "connection",
            self.id.lower(),
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps(status),
            namespace=self.org.namespace,
        )

    def sweep(self, *, times: int = 1, until: Callable[[int], bool] = lambda _: True) -> int:
        """Sweeps as so many replicas do at once, again until the cache has seen what it needs."""

        async def run() -> int:
            cluster = self.server.platform.cluster
            sweeps = [ExpiredCredentialCollector(cluster, self.server.platform.writer) for _ in range(times)]
            counts: list[int] = []

            async def swept() -> bool:
                counts.append(sum(await asyncio.gather(*(one.sweep() for one in sweeps))))
                return until(counts[-1])

            await eventually_async("what the sweep needs", swept)
            return counts[-1]

        return asyncio.run_coroutine_threadsafe(run(), self.server._loop).result(2 * PATIENCE)


@pytest.fixture
def connected(client: Client, kubectl: Kubectl, org: Organisation, server: Server) -> Connected:
    return Connected(client, kubectl, org, server)


def test_what_has_expired_is_gone_for_clients_and_pods_at_once(connected: Connected) -> None:
    assert connected.ids_in_rest() == ["good"]
    told = ask(connected.client, account_token(connected.kubectl, connected.org, connected.project)).json
    by_expiry = {one.get("expiresAt"): one["data"] for one in told["connections"]["shop"]["credentials"]}
    assert by_expiry == {PAST: {}, LATER: {"value": "s3cr3t"}}


def test_it_leaves_the_spec_once_the_operator_has_told(connected: Connected) -> None:
    connected.sweep()
    assert connected.ids_in_spec() == ["old", "good"]
    connected.operator_tells()
    assert connected.sweep(times=3, until=bool) == 1, "of three replicas one does it"
    assert connected.ids_in_spec() == ["good"]
    assert connected.ids_in_rest() == ["good"]
    assert connected.sweep() == 0


def test_what_another_manager_owns_is_left_alone(connected: Connected) -> None:
    live = stored(connected.kubectl, connected.org, "connection", connected.id)
    item = next(one for one in live["spec"]["credentials"] if one["id"] == "old")
    theirs = {key: live[key] for key in ("apiVersion", "kind")} | {
        "metadata": {"name": connected.id.lower(), "namespace": connected.org.namespace},
        "spec": {
            "name": live["spec"]["name"],
            "systemRef": live["spec"]["systemRef"],
            "credentials": [item],
        },
    }
    connected.kubectl("apply", "--server-side", "--field-manager=git", "-f", "-", stdin=json.dumps(theirs))
    connected.operator_tells()
    for _ in range(5):
        assert connected.sweep() == 0
    assert connected.ids_in_spec() == ["old", "good"]


def test_what_git_has_written_is_shown_as_expired(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    _, template = make_template(client)
    items = [{"id": "old", "type": "none", "authSchemeConfigId": "key", "expiresAt": PAST}]
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Connection",
        "metadata": {"name": "of-git", "namespace": org.namespace},
        "spec": {"name": "Git's", "systemRef": {"name": template["id"].lower()}, "credentials": items},
    }
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    shown = wait_for(client, f"/connections?system_id={template['id']}")["items"][0]
    assert "has expired" in shown["credentials"][0]["credential"]["errors"][0]


def test_a_writer_of_another_process_loses_nothing(connected: Connected) -> None:
    """The sweep computes its change on the live object: a credential that was added meanwhile stays."""
    added = [{"id": "good"}, credential("new")]
    connected.operator_tells()

    async def behind() -> int:
        cluster = connected.server.platform.cluster
        kube: Kube = connected.server._kube
        sweep = ExpiredCredentialCollector(cluster, Writer(kube))
        obj = cluster.connections.get(connected.org.namespace, connected.id.lower())
        await asyncio.to_thread(
            connected.client.ok, "PUT", f"/connections/{connected.id}", {"credentials": added}
        )
        return await sweep._clean(obj)

    future = asyncio.run_coroutine_threadsafe(behind(), connected.server._loop)
    assert future.result(2 * PATIENCE) is False
    assert connected.ids_in_spec() == ["good", "new"]
