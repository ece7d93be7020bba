"""The real operator gives pods the keys of Secrets that their owners opened, and tells what pods have reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import (
    SYSTEM,
    NamespacedKubectl,
    connection_spec,
    project_spec,
)
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.credentials.connection_state import LAST_SUCCESS, LAST_SUCCESS_OF
from tieline_core.credentials.refusals import ANNOTATION, CONDITION, fingerprint

pytestmark = pytest.mark.cluster

VALUE = "s3cr3t-of-the-database"
ENV = [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "code-db", "key": "password"}}}]


def given(acting: NamespacedKubectl) -> list[Any]:
    """What pods of the project take from Secrets."""
    found = acting.workload("deployment", "secretive")
    containers = found[0]["spec"]["template"]["spec"]["containers"] if found else []
    return [one["valueFrom"] for container in containers for one in container["env"] if "valueFrom" in one]


def test_a_secret_is_for_code_while_its_label_says_so(
    acting: NamespacedKubectl,
    operator: RunningOperator,
    kubectl: Kubectl,
    organisations: tuple[Organisation, Organisation],
) -> None:
    # A Secret of another organisation is not meant by its name.
    secret = ("create", "secret", "generic", "code-db", "--type=tieline.dev/credential")
    label = ("label", "secret", "code-db", "tieline.dev/expose-to-code=true")
    kubectl(*secret, "--from-literal=password=of-others", namespace=organisations[1].namespace)
    kubectl(*label, namespace=organisations[1].namespace)
    acting.apply("Project", "secretive", project_spec(runtime={"env": ENV}))
    acting.until_ready("project", "secretive", "False", "SecretVariableMissing")
    assert given(acting) == []
    acting.run(*secret, f"--from-literal=password={VALUE}")
    acting.until_environment("secretive", "error", "tieline.dev/expose-to-code")
    acting.run(*label)
    reference = {"secretKeyRef": {"name": "code-db", "key": "password"}}
    eventually("the variable", lambda: given(acting) == [reference])
    before = acting.workload("deployment", "secretive")[0]["spec"]["template"]
    replaced = json.dumps({"stringData": {"password": f"{VALUE}-2"}})
    acting.run("patch", "secret", "code-db", "--type=merge", "-p", replaced)
    eventually(
        "other pods", lambda: acting.workload("deployment", "secretive")[0]["spec"]["template"] != before
    )
    acting.run("annotate", "secret", "code-db", "tieline.dev/exposed-to=billing,secretive/staging")
    eventually("no variable", lambda: given(acting) == [])
    acting.run("annotate", "--overwrite", "secret", "code-db", "tieline.dev/exposed-to=secretive/production")
    eventually("the variable", lambda: given(acting) == [reference])
    acting.run("label", "secret", "code-db", "tieline.dev/expose-to-code-")
    eventually("no variable", lambda: given(acting) == [])
    shown = json.dumps([acting.get("project", "secretive"), acting.list("deployment"), acting.list("event")])
    assert VALUE not in shown
    assert VALUE not in operator.log.read_text()


def test_a_variable_has_a_value_or_a_source(acting: NamespacedKubectl) -> None:
    for env in ([{"name": "A"}], [{**ENV[0], "value": "x"}]):
        manifest = {
            "apiVersion": "tieline.dev/v1alpha1",
            "kind": "Project",
            "metadata": {"name": "neither"},
            "spec": project_spec(runtime={"env": env}),
        }
        done = acting.kubectl(
            *("apply", "--server-side", "-f", "-"),
            namespace=acting.namespace,
            stdin=json.dumps(manifest),
            check=False,
        )
        assert "give either value or valueFrom" in done.stderr


def test_a_report_of_refused_requests_is_a_condition_a_column_and_an_event(acting: NamespacedKubectl) -> None:
    acting.apply("System", "refusing", SYSTEM)
    acting.run(
        *("create", "secret", "generic", "refused-login", "--type=tieline.dev/credential"),
        *("--from-literal=username=ada", "--from-literal=password=p4ssw0rd"),
    )
    acting.apply("Connection", "refused", connection_spec("refusing", "refused-login"))
    acting.until_ready("connection", "refused", "True", "Valid")

    def condition() -> dict[str, Any]:
        found = acting.get("connection", "refused")["status"]["conditions"]
        return next((one for one in found if one["type"] == CONDITION), {})

    report = {"status": 401, "count": 3, "since": "2026-11-25T10:00:00Z", "last": "2026-11-25T10:05:00Z"}
    assert condition()["reason"] == "NotChecked"
    acting.run("annotate", "connection", "refused", f"{ANNOTATION}={json.dumps(report)}")
    eventually("refused", lambda: condition().get("reason") == "Refused")
    assert "at least 3 requests with 401" in condition()["message"]
    header, row = acting.run("get", "connection", "refused").splitlines()
    assert row[header.index("STATE") :].split()[0] == "Refused"
    eventually("an Event", lambda: "Refused" in acting.run("get", "events"))
    accepted = json.dumps({**report, "accepted": "2026-11-25T11:00:00Z"})
    acting.run("annotate", "--overwrite", "connection", "refused", f"{ANNOTATION}={accepted}")
    success = [
        f"{LAST_SUCCESS}={report['last']}",
        f"{LAST_SUCCESS_OF}={fingerprint(acting.get('connection', 'refused'))}",
    ]
    acting.run("annotate", "connection", "refused", *success)
    eventually("accepted", lambda: condition().get("status") == "True")
    header, row = acting.run("get", "connection", "refused", "-o", "wide").splitlines()
    assert row[header.index("STATE") :].split()[0] == "Works"
    assert row[header.index("LAST SUCCESS") :].split()[0].endswith(("h", "d"))
    acting.until_ready("connection", "refused", "True", "Valid")
