"""Whoever is on call learns of an issue once: from failed runs, by two replicas of the API and the operator."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import Kubectl, an_organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import PUBLIC_URL, Client, Server, of_engine
from tests.integration.api.resources.deployed_runs import Deployed, deploy
from tests.integration.operator.cluster_objects import NamespacedKubectl
from tests.integration.operator.running_operator import RunningOperator
from tests.integration.operator.test_event_engine_on_a_cluster import put_trust
from tests.integration.operator.test_notifications_on_a_cluster import Receiver, tell
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunError, RunRecord

pytestmark = pytest.mark.cluster

WITHIN = 240
SECRET = "what-an-event-held"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def acting(
    kubectl: Kubectl, kubeconfig: Path, crds_installed: None, engine: NatsServer, tmp_path: Path
) -> Iterator[NamespacedKubectl]:
    """A user of an organisation that an operator works on."""
    with an_organisation(kubectl) as made:
        found = NamespacedKubectl(kubectl=kubectl, namespace=made.namespace)
        put_trust(found, engine.trust)
        variables = {"TIELINE_EGRESS_ALLOWED": "127.0.0.0/8", "TIELINE_ENGINE_URL": engine.url}
        with RunningOperator(
            kubeconfig=kubeconfig,
            namespaces=(made.namespace,),
            log=tmp_path / "operator.log",
            variables=variables,
        ):
            yield found


@pytest.fixture
def deployed(
    server: Server, acting: NamespacedKubectl, engine: NatsServer, token_for: Callable[..., str]
) -> Deployed:
    label = "jsonpath={.metadata.labels.tieline\\.dev/organisation}"
    organisation = acting.kubectl("get", "namespace", acting.namespace, "-o", label).stdout.strip()
    client = Client(server.url, token_for(acting.namespace, "admin", "tieline-admin"), organisation)
    client.until_known()
    return deploy(client, engine)


def failed(task: str, *, ago: float = 0) -> RunRecord:
    now = time.time() - ago
    error = RunError(type="UpstreamError", message=f"the shop refuses {SECRET}")
    made = record(status="dead", attempt=3, task=task, error=error, queued_at=now - 5)
    return replace(made, at=now, ended_at=now)


def test_an_issue_is_told_once_by_two_replicas_and_once_more_when_it_is_back(
    acting: NamespacedKubectl,
    deployed: Deployed,
    receiver: Receiver,
    engine: NatsServer,
    api_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    project = eventually("the project", lambda: next(iter(acting.list("project")), None))
    deployed.report(failed("old", ago=60))
    assert project["spec"]["environments"][0]["name"] == "production"
    tell(acting, receiver, project["metadata"]["name"], "issue_opened", "issue_regressed")
    name = project["metadata"]["name"]
    eventually(
        "reports are followed",
        lambda: acting.get("notification", name).get("status", {}).get("issuesUntil"),
        within=WITHIN,
    )
    task = f"order.{new_id()}"
    with Server(api_kubeconfig, **of_engine(engine, tmp_path)):
        deployed.report(*(failed(task) for _ in range(50)))
        eventually("the issue is told", lambda: receiver.messages, within=WITHIN)
        (message,) = receiver.messages
        assert message["type"] == "issue_opened"
        (issue,) = message["data"]["issues"]
        assert issue["task"] == task, "what is older than the notification is not told"
        assert (issue["errorType"], issue["runs"]) == ("UpstreamError", 50)
        path = f"/projects/{deployed.project['id']}/issues/{issue['id']}"
        organisation = deployed.client.organisation
        assert issue["url"] == f"{PUBLIC_URL}/console/{organisation}{path}"
        assert deployed.client.ok("GET", path)["count"] == 50
        assert SECRET not in json.dumps(receiver.messages)
        deployed.client.ok("PATCH", path, {"state": "resolved"})
        deployed.report(*(failed(task) for _ in range(50)))
        eventually("it is back", lambda: len(receiver.messages) == 2, within=WITHIN)
        assert receiver.messages[1]["type"] == "issue_regressed"
        assert receiver.messages[1]["data"]["issues"][0]["id"] == issue["id"]
