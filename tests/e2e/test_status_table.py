"""Every row of the status table, on real pods: an environment's status is what its workload does."""

from __future__ import annotations

import pytest

from tests.harness.cluster.deployed_platform import Tenant, answering, http, project, says
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

CRASHING = 'print("opening the ledger")\nraise RuntimeError("the ledger is missing")\n'


def test_an_environment_without_a_version_is_a_draft_and_runs_nothing(tenant: Tenant):
    tenant.apply(project(answering("one"), environments=[{"name": "production"}]))
    environment = tenant.until("orders", "draft")
    assert environment["id"]
    assert tenant.pods("orders") == []
    tenant.apply(project(answering("one"), environments=[]))
    assert tenant.until("orders", "draft")["name"] == "production"


def test_a_project_that_kubectl_applies_runs_and_follows_new_files(tenant: Tenant):
    tenant.apply(project(answering("one")))
    first = tenant.until("orders", "running")
    assert says(first["publicUrl"]) == "one"
    tenant.apply(project(answering("two")))
    eventually("two", lambda: says(first["publicUrl"]) == "two")
    second = eventually(
        "another version serving",
        lambda: (found := tenant.environment("orders")).get("version") != first["version"] and found,
    )
    assert second["status"] == "running"
    assert second["id"] == first["id"]


def test_suspended_means_that_nothing_runs_any_more_and_resume_brings_it_back(tenant: Tenant):
    tenant.apply(project(answering("one")))
    url = tenant.until("orders", "running")["publicUrl"]
    tenant.apply(
        project(
            answering("one"), environments=[{"name": "production", "version": "latest", "suspended": True}]
        )
    )
    tenant.until("orders", "suspended")
    assert tenant.pods("orders") == []
    tenant.apply(project(answering("one")))
    tenant.until("orders", "running")
    assert says(url) == "one"


def test_a_version_that_crashes_leaves_the_old_one_serving_and_says_why(tenant: Tenant):
    tenant.apply(project(answering("one")))
    first = tenant.until("orders", "running")
    tenant.apply(project(CRASHING))
    environment = tenant.until("orders", "running", message="the ledger is missing")
    assert environment["version"] == first["version"]
    assert environment["desiredVersion"] != first["version"]
    assert says(first["publicUrl"]) == "one"
    ready = next(c for c in tenant.get("project", "orders")["status"]["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "False"
    assert "the ledger is missing" in ready["message"]
    tenant.apply(project(answering("three")))
    eventually("three", lambda: says(first["publicUrl"]) == "three")
    assert tenant.until("orders", "running", version=tenant.environment("orders")["desiredVersion"])


def test_a_first_version_that_crashes_is_an_error_with_its_last_log_lines(tenant: Tenant):
    tenant.apply(project(CRASHING))
    environment = tenant.until("orders", "error", message="the ledger is missing")
    assert "main.py" in environment["message"]
    tenant.apply(project(answering("mended")))
    assert says(tenant.until("orders", "running")["publicUrl"]) == "mended"


def test_code_that_python_cannot_read_never_reaches_a_pod(tenant: Tenant):
    tenant.apply(project(answering("one")))
    first = tenant.until("orders", "running")
    tenant.apply(project("def broken(:\n"))
    environment = tenant.until("orders", "running", message="main.py:1")
    assert environment["version"] == first["version"]
    assert len(tenant.pods("orders")) == 1
    assert says(first["publicUrl"]) == "one"


def test_an_image_that_does_not_exist_is_an_error_that_names_it(tenant: Tenant):
    tenant.apply(project(answering("one"), runtime={"image": "localhost/nobody/made-this:1"}))
    tenant.until("orders", "error", message="localhost/nobody/made-this:1")
    tenant.apply(project(answering("one")))
    tenant.until("orders", "running")


def test_a_quota_that_is_used_up_is_an_error_that_says_so(tenant: Tenant):
    tenant.kubectl("create", "quota", "none", "--hard=pods=0", namespace=tenant.namespace)
    tenant.apply(project(answering("one")))
    tenant.until("orders", "error", message="quota")
    tenant.kubectl("delete", "quota", "none", namespace=tenant.namespace)
    tenant.until("orders", "running", within=300)


def test_a_deployment_that_someone_deletes_comes_back(tenant: Tenant):
    tenant.apply(project(answering("one")))
    url = tenant.until("orders", "running")["publicUrl"]
    before = tenant.get("deployments", "-l", "tieline.dev/project=orders")["items"][0]["metadata"]["uid"]
    tenant.kubectl("delete", "deployment", "-l", "tieline.dev/project=orders", namespace=tenant.namespace)

    def returned() -> bool:
        found = tenant.get("deployments", "-l", "tieline.dev/project=orders")["items"]
        return bool(found) and found[0]["metadata"]["uid"] != before

    eventually("another Deployment", returned)
    eventually("an answer", lambda: says(url) == "one")
    tenant.until("orders", "running")


def test_rolling_back_is_pointing_at_an_older_version(tenant: Tenant):
    tenant.apply(project(answering("one")))
    first = tenant.until("orders", "running")
    tenant.apply(project(answering("two")))
    eventually("two", lambda: says(first["publicUrl"]) == "two")
    tenant.apply(
        project(answering("two"), environments=[{"name": "production", "version": first["version"]}])
    )
    eventually("one again", lambda: says(first["publicUrl"]) == "one")
    tenant.until("orders", "running", version=first["version"])


def test_deleting_a_project_removes_all_that_it_ran(tenant: Tenant):
    tenant.apply(project(answering("one")))
    tenant.until("orders", "running")
    kinds = "deployments,services,pods,serviceaccounts,networkpolicies,configmaps,projectversions"
    assert tenant.get(kinds, "-l", "tieline.dev/project=orders")["items"]
    tenant.kubectl("delete", "project", "orders", namespace=tenant.namespace)

    def rest() -> list[str]:
        found = [
            *tenant.get(kinds, "-l", "tieline.dev/project=orders")["items"],
            *tenant.get("projectversions")["items"],
        ]
        return [f"{item['kind']}/{item['metadata']['name']}" for item in found]

    eventually("everything gone", lambda: rest() == [])


def test_files_larger_than_one_configmap_holds_are_all_there(tenant: Tenant):
    code = (
        "from pathlib import Path\n"
        "from tieline import Integration\n"
        "integration = Integration()\n"
        "sizes = {p.name: p.stat().st_size for p in (Path(__file__).parent / 'data').iterdir()}\n"
        '@integration.webhook("hello", methods=["GET"])\n'
        "async def hello(ctx, request):\n"
        "    return {'says': str(sorted(sizes.items()))}\n"
    )
    sources = []
    for number in range(3):
        name = f"part-{number}"
        tenant.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name},
                "data": {"part.txt": str(number) * 200_000},
            }
        )
        sources.append({"name": name, "items": [{"key": "part.txt", "path": f"data/{number}.txt"}]})
    big = "x" * 1_000_000
    text = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{"big":"' + big + '"}}'
    tenant.kubectl("create", "-f", "-", namespace=tenant.namespace, stdin=text)
    sources.append({"name": "big", "items": [{"key": "big", "path": "data/big.txt"}]})
    tenant.apply(
        project(code, source={"files": [{"filename": "main.py", "content": code}], "configMaps": sources})
    )
    environment = tenant.until("orders", "running")
    expected = sorted({"big.txt": 1_000_000, **{f"{n}.txt": 200_000 for n in range(3)}}.items())
    assert says(environment["publicUrl"]) == str(expected)


def test_an_unknown_path_of_a_webhook_address_is_a_plain_404(tenant: Tenant):
    tenant.apply(project(answering("one")))
    url = tenant.until("orders", "running")["publicUrl"]
    assert http("GET", f"{url}/nothing").status == 404
    assert http("DELETE", f"{url}/hello").status == 405
