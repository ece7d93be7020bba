"""Logs of an environment's pods and of its versions' checks, by REST on a real API server."""

import json
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import RESTRICTED
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import MAIN, make_project
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL

pytestmark = pytest.mark.cluster


def _logs(client: Client, project: dict[str, Any], query: str = "") -> dict[str, Any]:
    page: dict[str, Any] = client.ok("GET", f"/projects/{project['id']}/logs{query}")
    return page


def test_a_project_that_never_ran_has_no_lines(client: Client) -> None:
    assert _logs(client, make_project(client)) == {"logs": []}


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("?start=yesterday", 422, "start"),
        ("?end=2026-11-21", 422, "end"),
        ("?first=0", 422, "first"),
        ("?first=1001", 422, "first"),
        ("?order=up", 422, "order"),
        ("?severity=loud", 422, "severity"),
        ("?build=perhaps", 422, "build"),
        ("?next_token=x", 400, None),
        ("?project_env=nowhere", 404, None),
    ],
)
def test_what_cannot_be_asked_for(client: Client, query: str, status: int, field: str | None) -> None:
    answer = client("GET", f"/projects/{make_project(client)['id']}/logs{query}")
    assert (answer.status, answer.fields) == (status, [field] if field else [])


def test_findings_of_versions_are_the_build_log(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project = make_project(client)
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN], "versionName": "one"})
    version = client.ok("GET", f"/projects/{project['id']}/versions")["items"][0]
    findings = [
        {"filename": "main.py", "line": 3, "severity": "error", "message": "Invalid syntax"},
        {"severity": "warning", "message": "Nothing listens"},
    ]
    status = {"status": {"state": "failed", "findings": findings}}
    kubectl(
        "patch", "projectversion", version["id"].lower(), "--subresource=status", "--type=merge",
        "-p", json.dumps(status), namespace=org.namespace,
    )  # fmt: skip
    eventually("the findings", lambda: _logs(client, project, "?build=true")["logs"])
    page = _logs(client, project, "?build=true&order=asc&first=1")
    line = page["logs"][0]
    assert (line["severity"], line["message"]) == ("ERROR", "main.py:3: Invalid syntax")
    assert line["fields"] == {
        "versionId": version["id"], "version": "one", "filename": "main.py", "line": 3,
    }  # fmt: skip
    rest = _logs(client, project, f"?build=true&order=asc&first=1&next_token={page['nextToken']}")
    assert [line["message"] for line in rest["logs"]] == ["Nothing listens"]
    assert "nextToken" not in rest
    assert len(_logs(client, project, "?build=true&latest=true")["logs"]) == 2
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"versionName": "two"})
    assert _logs(client, project, "?build=true&latest=true")["logs"] == [], "the newest has no findings"
    assert len(_logs(client, project, "?build=true")["logs"]) == 2
    found = _logs(client, project, "?build=true&search=LISTENS")["logs"]
    assert [line["severity"] for line in found] == ["WARNING"]
    found = _logs(client, project, "?build=true&severity=ERROR")["logs"]
    assert [line["severity"] for line in found] == ["ERROR"]


_WRITES = """
import json, sys, time
print(json.dumps({"severity": "INFO", "message": "Hello", "executionId": "01JX", "fields": {"pod": sys.argv[1]}}))
print("a plain line")
sys.stdout.flush()
import os
if not os.path.exists("/tmp/again/once"):
    open("/tmp/again/once", "w").close()
    sys.exit("boom")
time.sleep(3600)
"""


def _pod(kubectl: Kubectl, project: dict[str, Any], image: str, name: str) -> dict[str, Any]:
    environment = project["environments"][0]["id"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {ENVIRONMENT_ID_LABEL: environment}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "runtime",
                    "image": image,
                    "imagePullPolicy": "Never",
                    "command": ["python3", "-c", _WRITES, name],
                    "securityContext": RESTRICTED,
                    "volumeMounts": [{"name": "again", "mountPath": "/tmp/again"}],
                }
            ],
            "volumes": [{"name": "again", "emptyDir": {}}],
        },
    }


def test_lines_of_all_pods_come_in_the_order_of_time_with_those_before_a_crash(
    client: Client, kubectl: Kubectl, org: Organisation, runtime_image: str
) -> None:
    project = make_project(client)
    for name in ("one", "two"):
        manifest = json.dumps(_pod(kubectl, project, runtime_image, f"{name}-{project['id'].lower()}"))
        kubectl("apply", "-f", "-", stdin=manifest, namespace=org.namespace)

    def all_lines() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = _logs(client, project, "?order=asc")["logs"]
        assert len(found) >= 10, found
        return found

    lines = eventually("ten lines", all_lines)
    times = [line["timestamp"] for line in lines]
    assert times == sorted(times)
    hello = [line for line in lines if line["message"] == "Hello"]
    assert len(hello) == 4, "two pods, each before its crash and after"
    assert {line["fields"]["executionId"] for line in hello} == {"01JX"}
    assert len({line["fields"]["pod"] for line in hello}) == 2
    boom = [line for line in lines if line["message"] == "boom"]
    assert [line["severity"] for line in boom] == ["ERROR", "ERROR"]

    for order in ("asc", "desc"):
        seen, token = [], ""
        while True:
            page = _logs(client, project, f"?order={order}&first=3{token}")
            seen += page["logs"]
            if "nextToken" not in page:
                break
            token = f"&next_token={page['nextToken']}"
        assert sorted(map(str, seen)) == sorted(map(str, lines))
    assert len(_logs(client, project, "?search=BOOM")["logs"]) == 2
    assert _logs(client, project, f"?end={times[0]}")["logs"] == []
    assert len(_logs(client, project, f"?start={times[0]}")["logs"]) == len(lines)
    assert _logs(client, project, "?latest=true")["logs"] == [], "none of them is of a deployed version"
    kubectl(
        "delete", "pod", "--wait=false", "-l",
        f"{ENVIRONMENT_ID_LABEL}={project['environments'][0]['id']}", namespace=org.namespace,
    )  # fmt: skip
