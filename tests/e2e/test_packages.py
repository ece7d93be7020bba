"""Packages of a lock, from an index to the pods that import them, with an index that is away in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.cluster import package_index
from tests.harness.cluster.deployed_platform import Platform, Tenant, project, says
from tests.harness.cluster.kubectl import Organisation
from tests.harness.cluster.package_index import Wheel
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

OLD = Wheel("greetings", "1.0", "def greeting():\n    return 'hello from 1.0'\n")
NEW = Wheel("greetings", "2.0", "def greeting():\n    return 'hello from 2.0'\n")
CODE = (
    "from greetings import greeting\n"
    "from tieline import Integration\n"
    "integration = Integration()\n"
    "@integration.webhook('hello', methods=['GET'])\n"
    "async def hello(ctx, request):\n"
    "    return {'says': greeting()}\n"
)


@pytest.fixture
def index(platform: Platform, organisation: Organisation) -> Iterator[Platform]:
    package_index.serve(platform.kubectl, platform.images["runtime"], OLD, NEW)
    package_index.let_in(platform.kubectl, organisation.namespace)
    yield platform
    package_index.stop(platform.kubectl)


def with_lock(*wheels: Wheel, name: str = "orders") -> dict[str, Any]:
    files = {"main.py": CODE, "requirements.txt": "".join(wheel.locked for wheel in wheels)}
    source = {"files": [{"filename": path, "content": content} for path, content in files.items()]}
    return project(CODE, name=name, source=source)


def test_pods_import_the_packages_of_the_lock_and_need_no_index_to_start(
    index: Platform, tenant: Tenant
) -> None:
    tenant.apply(with_lock(OLD))
    url = tenant.until("orders", "running")["publicUrl"]
    assert says(url) == "hello from 1.0"

    package_index.stop(index.kubectl)
    (pod,) = [one for one in tenant.pods("orders") if "initContainerStatuses" in one["status"]]
    index.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false", namespace=tenant.namespace)
    eventually("a new pod of the same packages", lambda: _other_pod_serves(tenant, pod, url))

    # What one project has had installed, another one of the organisation has at once.
    tenant.apply(with_lock(OLD, name="invoices"))
    assert says(tenant.until("invoices", "running")["publicUrl"]) == "hello from 1.0"

    tenant.apply(with_lock(NEW))
    waiting = eventually("why it waits", lambda: _message_with(tenant, "cannot be reached"))
    assert "the packages of version" in waiting
    assert "keeps serving" in waiting
    assert package_index.PASSWORD not in str(tenant.get("jobs,pods,events,projects,projectversions"))
    assert says(url) == "hello from 1.0", "the old version serves while the index is away"

    package_index.serve(index.kubectl, index.images["runtime"], OLD, NEW)
    eventually("the new version", lambda: says(url) == "hello from 2.0")


def _other_pod_serves(tenant: Tenant, old: dict[str, Any], url: str) -> bool:
    names = {pod["metadata"]["name"] for pod in tenant.pods("orders") if _is_ready(pod)}
    return bool(names - {old["metadata"]["name"]}) and says(url) == "hello from 1.0"


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _message_with(tenant: Tenant, words: str) -> str:
    conditions = tenant.get("project", "orders")["status"]["conditions"]
    message = str(conditions[0]["message"])
    return message if words in message else ""
