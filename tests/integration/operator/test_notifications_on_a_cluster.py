"""A failed deploy is told once, over a kill of the operator, and once more when it is over."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.harness.cluster.kubectl import Kubectl, Organisation, make_organisation
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec, ready
from tests.integration.operator.running_operator import RunningOperator
from tieline_operator.reconcilers.notification.incidents import RECOVERY_SECONDS

pytestmark = pytest.mark.cluster

SECRET = f"whsec_{base64.b64encode(b'0123456789abcdef0123456789abcdef').decode()}"


class Receiver:
    """An HTTP server that verifies what it gets with the reference library."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.status < 300:
                    receiver.messages.append(Webhook(SECRET).verify(body, dict(self.headers.items())))
                    receiver.ids.append(self.headers["webhook-id"])
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/tieline"

    def types(self, project: str) -> list[str]:
        return [one["type"] for one in self.messages if one["data"]["project"]["name"] == project]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def organisation(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    made = make_organisation(kubectl)
    yield made
    kubectl("delete", "namespace", made.namespace, "--wait=false")


@pytest.fixture(scope="module")
def operator(
    operator_kubeconfig: Path, organisation: Organisation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningOperator]:
    running = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=(organisation.namespace,),
        log=tmp_path_factory.mktemp("operator") / "log",
        variables={"TIELINE_EGRESS_ALLOWED": "127.0.0.0/8"},
    )
    with running:
        yield running


@pytest.fixture
def acting(kubectl: Kubectl, organisation: Organisation, operator: RunningOperator) -> NamespacedKubectl:
    return NamespacedKubectl(kubectl=kubectl, namespace=organisation.namespace)


def tell(acting: NamespacedKubectl, receiver: Receiver, project: str, *events: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{project}-signing", "namespace": acting.namespace},
        "type": "tieline.dev/credential",
        "stringData": {"secret": SECRET},
    }
    acting.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    webhook = {"url": receiver.url, "secretRef": {"name": f"{project}-signing"}}
    acting.apply("NotificationChannel", project, {"name": project, "type": "webhook", "webhook": webhook})
    acting.apply(
        "Notification",
        project,
        {
            "name": project,
            "projectRef": {"name": project},
            "environment": "production",
            "channelRef": {"name": project},
            "events": list(events),
        },
    )


def lives(project: str, code: str) -> dict[str, Any]:
    """Its pods fit on no node, so that no real kubelet reports about them."""
    spec = project_spec(code, runtime={"resources": {"requests": {"cpu": "1000"}}})
    return {**spec, "name": project}


def until_serving(acting: NamespacedKubectl, project: str) -> None:
    """Plays the kubelet until the version that is wanted serves."""
    status = json.dumps(
        {
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [
                    {
                        "name": "runtime",
                        "image": "x",
                        "imageID": "x",
                        "ready": True,
                        "restartCount": 0,
                        "state": {"running": {}},
                    }
                ],
            }
        }
    )

    def probe() -> bool:
        for pod in acting.workload("pods", project):
            if "deletionTimestamp" not in pod["metadata"]:
                acting.run("patch", "pod", pod["metadata"]["name"], "--subresource=status", "-p", status)
        return ready(acting.get("project", project)).get("reason") == "Running"

    eventually(f"{project} serves", probe, seen=lambda: acting.get("project", project)["status"])


def incidents(acting: NamespacedKubectl, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = acting.get("notification", name).get("status", {}).get("incidents", [])
    return found


def test_a_failed_deploy_is_told_once_over_a_kill_and_once_when_it_is_over(
    acting: NamespacedKubectl, receiver: Receiver, operator: RunningOperator
) -> None:
    acting.apply("Project", "told", lives("told", "print('one')\n"))
    tell(acting, receiver, "told")
    until_serving(acting, "told")
    acting.until_ready("notification", "told", "True", "Watching")
    acting.until_ready("notificationchannel", "told", "True", "Valid")

    acting.apply("Project", "told", lives("told", "def (\n"))
    eventually("the failure is told", lambda: receiver.types("told") == ["deploy_failed.started"])
    (message,) = receiver.messages
    assert "could not be deployed (VersionRefused)" in message["data"]["message"]
    assert "keeps serving" in message["data"]["message"]
    eventually("that is stored", lambda: incidents(acting, "told")[0].get("notifiedAt"))

    operator.signal(signal.SIGKILL)
    assert operator.stop() == -signal.SIGKILL
    operator.start()
    operator.at_rest()
    assert receiver.types("told") == ["deploy_failed.started"]
    assert 'tieline_operator_incidents{event="deploy_failed"} 1.0' in operator.metrics()

    acting.apply("Project", "told", lives("told", "print('two')\n"))
    until_serving(acting, "told")
    eventually("its end is found", lambda: incidents(acting, "told")[0].get("endedAt"))
    assert operator.stop() == 0
    operator.start()
    eventually(
        "its end is told",
        lambda: receiver.types("told") == ["deploy_failed.started", "deploy_failed.resolved"],
        within=RECOVERY_SECONDS + 60,
    )
    eventually("nothing goes on", lambda: not incidents(acting, "told"))
    operator.at_rest()
    assert len(receiver.messages) == 2
    reasons = acting.run("get", "events", "-o", "jsonpath={.items[*].reason}").split()
    assert reasons.count("DeployFailed") == 1
    assert reasons.count("DeployFailedResolved") == 1
    assert SECRET not in operator.log.read_text()


def test_a_failing_channel_holds_up_nothing_and_says_what_is_wrong(
    acting: NamespacedKubectl, receiver: Receiver, operator: RunningOperator
) -> None:
    receiver.status = 503
    acting.apply("Project", "deaf", lives("deaf", "def (\n"))
    tell(acting, receiver, "deaf", "deploy_failed")
    found = acting.until_ready("notificationchannel", "deaf", "False", "Refused")
    assert "127.0.0.1 answered 503" in ready(found)["message"]
    assert "/tieline" not in json.dumps(found["status"])
    acting.until_ready("notification", "deaf", "False", "ChannelNotReady")
    assert 'tieline_operator_notifications_total{outcome="failed",type="webhook"}' in operator.metrics()
    receiver.status = 200
    # A change of the channel is a reason to try again at once.
    tell(acting, receiver, "deaf", "deploy_failed")
    webhook = {"url": f"{receiver.url}?mended", "secretRef": {"name": "deaf-signing"}}
    acting.apply("NotificationChannel", "deaf", {"name": "deaf", "type": "webhook", "webhook": webhook})
    eventually("it is told", lambda: receiver.types("deaf") == ["deploy_failed.started"])
    acting.until_ready("notificationchannel", "deaf", "True", "Valid")


def test_two_operators_tell_once(
    acting: NamespacedKubectl,
    receiver: Receiver,
    operator: RunningOperator,
    operator_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    second = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=operator.namespaces,
        log=tmp_path / "log",
        variables=operator.variables,
    )
    tell(acting, receiver, "both", "deploy_failed")
    second.spawn()
    try:
        eventually("the second stands by", second.stands_by)
        acting.apply("Project", "both", lives("both", "def (\n"))
        eventually("it is told", lambda: receiver.types("both") == ["deploy_failed.started"])
        eventually("that is stored", lambda: incidents(acting, "both")[0].get("notifiedAt"))
        operator.stop()
        eventually("the second leads", second.ready)
        second.at_rest()
        assert receiver.types("both") == ["deploy_failed.started"]
    finally:
        second.stop()
        operator.start()


def test_what_becomes_of_a_users_connection_is_told_over_kills_of_the_operator(
    acting: NamespacedKubectl, receiver: Receiver, operator: RunningOperator
) -> None:
    """Also what happened while no operator ran: nothing of it is in a process."""
    acting.apply("Project", "embedded", lives("embedded", "print('one')\n"))
    scheme = {"id": "key", "type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}}
    acting.apply(
        "System",
        "shop",
        {
            "name": "Shop",
            "domain": "shop.example",
            "templateBaseUrl": "https://shop.example",
            "authSchemeConfigs": [scheme],
        },
    )
    acting.apply("EndUser", "ann", {"externalId": "customer-17"})
    place = {"projectRef": {"name": "embedded"}, "environment": "production"}
    template = {"name": "shop", "systemRef": {"name": "shop"}, "dynamic": True, **place}
    acting.apply("ConnectionTemplate", "embedded", template)
    events = ("connection.created", "connection.deleted", "connection.failed", "activation.created")
    tell(acting, receiver, "embedded", *events)
    eventually(
        "it is watched", lambda: acting.get("notification", "embedded")["status"].get("lifecycleSince")
    )

    operator.signal(signal.SIGKILL)
    assert operator.stop() == -signal.SIGKILL
    connection = {
        "name": "Ann's shop",
        "systemRef": {"name": "shop"},
        "connectionTemplateRef": {"name": "embedded"},
        "endUserRef": {"name": "ann"},
        "credentials": [
            {"id": "key", "type": "string", "authSchemeConfigId": "key", "secretRef": {"name": "missing"}}
        ],
    }
    acting.apply("Connection", "anns", connection)
    acting.apply(
        "Activation",
        "ann",
        {
            **place,
            "endUserRef": {"name": "ann"},
            "connections": [{"connectionTemplate": "embedded", "connectionRef": {"name": "anns"}}],
        },
    )
    operator.start()
    told = ["activation.created", "connection.created"]
    eventually("both are told", lambda: sorted(receiver.types("embedded")) == told)
    eventually(
        "then what is wrong with it",
        lambda: receiver.types("embedded")[2:] == ["connection.failed"],
        within=60,
        seen=lambda: (receiver.types("embedded"), acting.get("connection", "anns")["status"]),
    )
    assert '"missing"' in receiver.messages[2]["data"]["message"]

    operator.signal(signal.SIGKILL)
    assert operator.stop() == -signal.SIGKILL
    acting.run("delete", "activation", "ann")
    acting.run("delete", "connection", "anns")
    acting.run("delete", "enduser", "ann")
    operator.start()
    eventually("its end is told", lambda: receiver.types("embedded")[3:] == ["connection.deleted"])
    assert receiver.messages[3]["data"]["user"]["externalId"] == "customer-17"
    operator.at_rest()
    assert len(receiver.messages) == 4
    ledgers = [one for one in acting.list("configmap") if "-reported-" in one["metadata"]["name"]]
    assert len(ledgers) == 1
    acting.run("delete", "notification", "embedded")
    eventually(
        "the ledger goes with it",
        lambda: not [one for one in acting.list("configmap") if "-reported-" in one["metadata"]["name"]],
        within=60,
    )
