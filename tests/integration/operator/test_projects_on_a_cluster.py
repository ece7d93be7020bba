"""Projects on a real API server with its real controllers; only the kubelet's part is played where pods run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import (
    SYSTEM,
    NamespacedKubectl,
    connection_spec,
    project_spec,
    ready,
)
from tests.integration.operator.running_operator import RunningOperator

pytestmark = pytest.mark.cluster

WORKLOAD = ("deployment", "service", "serviceaccount", "networkpolicy")


def test_a_project_becomes_a_version_and_a_workload_that_the_restricted_standard_admits(
    acting: NamespacedKubectl,
) -> None:
    acting.apply("Project", "whole", project_spec(runtime={"replicas": 2}))
    eventually("its pods are admitted", lambda: len(acting.workload("pods", "whole")) == 2)
    for kind in (*WORKLOAD, "poddisruptionbudget"):
        assert len(acting.workload(kind, "whole")) == 1
    (version,) = acting.list("projectversion", "tieline.dev/project=whole")
    assert ready(version)["reason"] == "Checked"
    # The image cannot be had, so that the pods go from starting to an error at a time of the node's choosing.
    environment = eventually(
        "its environment has an address",
        lambda: next(
            (
                entry
                for entry in acting.get("project", "whole").get("status", {}).get("environments", [])
                if entry.get("publicUrl")
            ),
            None,
        ),
    )
    assert environment["status"] in {"draft", "error"}
    assert environment["desiredVersion"] == version["metadata"]["name"]
    assert environment["publicUrl"].startswith("http://10.")


def test_a_deleted_or_edited_child_is_put_right(acting: NamespacedKubectl) -> None:
    acting.apply("Project", "mended", project_spec())
    eventually("it has a Deployment", lambda: acting.workload("deployment", "mended"))
    name = acting.workload("deployment", "mended")[0]["metadata"]["name"]
    for kind in WORKLOAD:
        before = acting.get(kind, name)["metadata"]["uid"]
        acting.run("delete", kind, name)
        eventually(
            f"{kind} is back",
            lambda kind=kind, before=before: any(
                item["metadata"]["uid"] != before for item in acting.workload(kind, "mended")
            ),
        )
    acting.run("scale", "deployment", name, "--replicas=5")
    eventually("the scale is put right", lambda: acting.get("deployment", name)["spec"]["replicas"] == 1)


def test_a_field_that_is_no_longer_asked_for_goes(acting: NamespacedKubectl) -> None:
    limits = {"resources": {"limits": {"cpu": "1", "memory": "256Mi"}}}
    acting.apply("Project", "shrunk", project_spec(runtime=limits))
    eventually("it has a Deployment", lambda: acting.workload("deployment", "shrunk"))
    acting.apply("Project", "shrunk", project_spec())

    def limits_of_deployment() -> Any:
        (deployment,) = acting.workload("deployment", "shrunk")
        return deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]

    eventually("the limit is gone", lambda: limits_of_deployment() == {"memory": "512Mi"})


def test_files_from_a_configmap_are_followed_and_large_ones_are_kept(
    acting: NamespacedKubectl, tmp_path: Any
) -> None:
    source = {"configMaps": [{"name": "followed"}, {"name": "followed-data"}]}
    acting.apply("Project", "followed", project_spec(source=source))
    acting.until_ready("project", "followed", "False", "FilesMissing")
    large = tmp_path / "data.bin"
    large.write_bytes(bytes(range(256)) * 3600)
    acting.run("create", "configmap", "followed", "--from-literal=main.py=print(1)")
    acting.run("create", "configmap", "followed-data", f"--from-file={large}")
    eventually("a version is made", lambda: acting.list("projectversion", "tieline.dev/project=followed"))
    acting.run("patch", "configmap", "followed", "-p", '{"data": {"main.py": "print(2)"}}')
    eventually(
        "another version is made",
        lambda: len(acting.list("projectversion", "tieline.dev/project=followed")) == 2,
    )
    names = {item["metadata"]["name"] for item in acting.list("configmap", "tieline.dev/project=followed")}
    named = {
        item["name"]
        for version in acting.list("projectversion", "tieline.dev/project=followed")
        for item in version["spec"]["configMaps"]
    }
    assert names == named
    assert len(names) == 3, "the large file is kept once"


def test_broken_code_is_refused_with_its_line_before_any_pod(acting: NamespacedKubectl) -> None:
    acting.apply("Project", "broken", project_spec("x = 1\ndef f(:\n"))
    acting.until_environment("broken", "error", "main.py:2")
    assert acting.workload("deployment", "broken") == []


def test_code_waits_for_the_template_that_it_names(acting: NamespacedKubectl) -> None:
    code = 'async def f(ctx):\n    return await ctx.fetch("shop", "/orders")\n'
    acting.apply("Project", "waits", project_spec(code))
    acting.until_ready("project", "waits", "False", "TemplateNotFound")
    acting.apply("System", "waits", SYSTEM)
    spec = {
        "name": "shop",
        "projectRef": {"name": "waits"},
        "environment": "production",
        "systemRef": {"name": "waits"},
    }
    acting.apply("ConnectionTemplate", "waits", spec)
    acting.until_ready("connectiontemplate", "waits", "False", "TemplateNotLinked")
    eventually("it is deployed", lambda: acting.workload("deployment", "waits"))


def test_a_quota_that_leaves_no_room_is_an_error_that_says_so(acting_crowded: NamespacedKubectl) -> None:
    acting_crowded.apply("Project", "crowded", project_spec())
    acting_crowded.until_environment("crowded", "error", "exceeded quota")


def test_an_environment_that_is_removed_and_a_project_that_is_deleted_leave_nothing(
    acting: NamespacedKubectl,
) -> None:
    environments = [{"name": name, "version": "latest"} for name in ("production", "staging")]
    acting.apply("Project", "removed", project_spec(environments=environments))
    eventually("both run", lambda: len(acting.list("deployment", "tieline.dev/project=removed")) == 2)
    acting.apply("Project", "removed", project_spec(environments=environments[:1]))
    for kind in WORKLOAD:
        eventually(f"{kind} is gone", lambda kind=kind: not acting.workload(kind, "removed", "staging"))
    assert acting.workload("deployment", "removed")
    acting.run("delete", "project", "removed")
    for kind in (*WORKLOAD, "configmap", "projectversion", "pods"):
        eventually(f"{kind} is gone", lambda kind=kind: not acting.list(kind, "tieline.dev/project=removed"))


def test_the_status_follows_the_pods_from_running_to_crashed_and_back(acting: NamespacedKubectl) -> None:
    acting.apply("Project", "lives", _lives())
    eventually("it has a pod", lambda: acting.workload("pods", "lives"))
    _report(acting, ready=True)
    first = acting.until_environment("lives", "running")["version"]
    acting.until_ready("project", "lives", "True", "Running")

    acting.apply("Project", "lives", _lives("print('two')\n"))
    eventually("the new pod is there", lambda: len(acting.workload("pods", "lives")) == 2)
    _report(acting, ready=False, unless=first)
    message = acting.until_environment("lives", "running", "boom")["message"]
    assert f"version {first} keeps serving" in message
    _report(acting, ready=True, unless=first)
    acting.until_ready("project", "lives", "True", "Running")

    _needs_a_secret(acting, "lives")

    stopped = [{"name": "production", "version": "latest", "suspended": True}]
    acting.apply("Project", "lives", _lives("print('two')\n", environments=stopped))
    acting.until_environment("lives", "suspended")
    assert acting.workload("pods", "lives") == []


def _needs_a_secret(acting: NamespacedKubectl, project: str) -> None:
    """A project that runs is not Ready while a connection that its code needs lacks its Secret."""
    acting.apply("System", "needed", SYSTEM)
    acting.apply("Connection", "needed", connection_spec("needed", "needed"))
    template = {
        "name": "shop",
        "projectRef": {"name": project},
        "environment": "production",
        "systemRef": {"name": "needed"},
        "connectionRef": {"name": "needed"},
    }
    acting.apply("ConnectionTemplate", "needed", template)
    told = ready(acting.until_ready("project", project, "False", "ConnectionNotReady"))
    assert 'Secret "needed"' in told["message"]
    acting.until_environment(project, "running", "needed")
    values = ("--from-literal=username=ann", "--from-literal=password=secret")
    acting.run("create", "secret", "generic", "needed", "--type=tieline.dev/credential", *values)
    acting.until_ready("project", project, "True", "Running")


def test_a_restart_writes_nothing_and_the_probe_answers(
    acting: NamespacedKubectl, operator: RunningOperator
) -> None:
    stopped = [{"name": "production", "version": "latest", "suspended": True}]
    acting.apply("Project", "quiet", project_spec(environments=stopped))
    acting.apply("Project", "failed", project_spec(runtime={"image": "localhost/nobody/made-this:1"}))
    acting.until_environment("quiet", "suspended")
    acting.until_environment("failed", "error", "localhost/nobody/made-this:1")
    operator.at_rest()
    assert operator.stop() == 0
    operator.start()
    assert operator.at_rest() == {}
    assert operator.healthy()


def _lives(code: str = "print('one')\n", **more: Any) -> dict[str, Any]:
    """Its pods fit on no node, so that no real kubelet reports about them."""
    return project_spec(code, runtime={"resources": {"requests": {"cpu": "1000"}}}, **more)


def _report(acting: NamespacedKubectl, *, ready: bool, unless: str = "") -> None:
    """Plays the kubelet: reports pods ready or crashed, except those of the version ``unless``."""
    for pod in acting.workload("pods", "lives"):
        if pod["metadata"]["annotations"]["tieline.dev/version"] == unless:
            continue
        ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "boom"}}
        container = {
            "name": "runtime",
            "image": "x",
            "imageID": "x",
            "ready": ready,
            "restartCount": 0 if ready else 2,
            "state": {"running": {}} if ready else {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {} if ready else ended,
        }
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [container],
        }
        acting.run(
            "patch",
            "pod",
            pod["metadata"]["name"],
            "--subresource=status",
            "-p",
            json.dumps({"status": status}),
        )
