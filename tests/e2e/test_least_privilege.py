"""Nobody has a right that nobody needs: what roles grant, beside what the API server saw being used.

Runs last. What counts as used is what operator and API have asked for since the session began: in their pods, and as
processes of the integration tests, which have accounts with the same rights
(``tests/harness/cluster/service_accounts.py``), in this session and in those that ``python -m tests`` runs beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from tests.harness.cluster.audit_log import Request, Right, requests
from tests.harness.cluster.deployed_platform import Platform, Tenant, http, project
from tests.harness.cluster.granted_rights import granted_to, unused
from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.cluster.service_accounts import PARTS, PLATFORM, account_of, deployed_account_of
from tests.harness.session import reports
from tieline_cluster.providers import Cluster

pytestmark = pytest.mark.e2e

COLLECTED = datetime.now(UTC)
"""All tests are collected before the first one runs."""
# Without these not enough has been asked for to judge.
NEEDED = ("e2e", "integration/api", "integration/oauth", "integration/operator")

OURS = "tieline.dev"
# Rights that only rare ways use: when that is, and the tests that go there.
_PRUNED = (
    "more versions than are kept: tests/unit/operator/reconcilers/project/{test_versions,test_connector}.py"
)
RARE: dict[str, dict[Right, str]] = {
    "operator": {
        Right(OURS, "projectversions", "delete"): _PRUNED,
        Right(OURS, "connectorversions", "delete"): _PRUNED,
        Right("", "configmaps", "delete"): _PRUNED,
        Right(
            "rbac.authorization.k8s.io", "clusterroles", "bind"
        ): "a verb that no request has, which Kubernetes "
        "asks for when rights are given: tests/e2e/test_secret_rights.py",
        Right("discovery.k8s.io", "endpointslices", "get"): "who changed one by hand, as of any child: "
        "tests/integration/operator/test_drift_on_a_cluster.py",
        Right(
            OURS, "connectorversions", "patch"
        ): "a version that has no id, as after a restore by other tools: "
        "tests/unit/operator/reconcilers/test_references.py",
    },
    "api": {
        Right(OURS, "connectors", "get"): "two first imports of a connector in one instant: "
        "tests/integration/api/resources/test_connectors.py",
        Right(
            OURS, "connections", "expose"
        ): "a verb that no request has, which an admission policy asks for: "
        "tests/integration/api/access/test_exposed_connections.py",
        Right(
            OURS, "projectversions", "attest"
        ): "a verb that no request has, which an admission policy asks for: "
        "tests/integration/policies/test_version_authors_on_a_cluster.py",
        Right(OURS, "projects", "attest"): "a verb that no request has, which an admission policy asks for: "
        "tests/integration/policies/test_version_authors_on_a_cluster.py",
        Right(
            "rbac.authorization.k8s.io", "clusterroles", "bind"
        ): "a verb that no request has, which Kubernetes "
        "asks for when a role is assigned: tests/integration/api/console/test_access.py",
        Right("", "namespaces", "get"): "one organisation served by TIELINE_NAMESPACES: tests/install",
    },
}

PROBE = '''
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from tieline import Context, Integration

integration = Integration()
SERVER = "https://kubernetes.default.svc"


@integration.webhook("default-token")
def default_token(ctx: Context) -> str:
    return str(Path("/var/run/secrets/kubernetes.io").exists())


@integration.webhook("own-token")
def own_token(ctx: Context) -> str:
    """What the API server says to the only token that the pod has."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    token = Path(os.environ["TIELINE_TOKEN_FILE"]).read_text()
    asked = urllib.request.Request(f"{SERVER}/api", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(asked, timeout=10, context=trusting) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return str(error.code)
'''


@pytest.fixture(scope="module")
def asked(platform: Platform, cluster: Cluster) -> Callable[[], list[Request]]:
    """Gives all requests for resources by ServiceAccounts since the session began."""
    if cluster.audit_log is None:
        pytest.skip(
            "The cluster writes no audit log: `tieline-cluster up --audit accounts` makes one that does"
        )
    log = cluster.audit_log
    return lambda: list(requests(log, since=COLLECTED))


@pytest.fixture(scope="module")
def beside() -> reports.Report:
    """What the sessions beside this one did; nothing where this one is alone."""
    return reports.read() or reports.Report(failed=False)


def accounts(part: str) -> tuple[str, str]:
    """Who has the part's rights: its pods, and its processes in tests."""
    return deployed_account_of(part), account_of(part)


def missing(items: Sequence[pytest.Item], beside: reports.Report) -> list[str]:
    """Modules whose tests are no part of this session, nor of those beside it."""
    ran = {str(item.path.relative_to(ROOT)) for item in items} | set(beside.modules)
    modules = [path for folder in NEEDED for path in (ROOT / "tests" / folder).rglob("test_*.py")]
    return sorted({str(path.relative_to(ROOT)) for path in modules} - ran)


@pytest.mark.parametrize("part", PARTS)
def test_every_right_that_is_granted_was_used(
    request: pytest.FixtureRequest,
    kubectl: Kubectl,
    asked: Callable[[], list[Request]],
    beside: reports.Report,
    part: str,
) -> None:
    granted = granted_to(kubectl, PLATFORM, f"tieline-{part}")
    ours = [one for one in (*asked(), *beside.requests) if one.user in accounts(part) and one.allowed]
    assert not RARE[part].keys() - {one.right for one in granted}, "the table names what is not granted"
    if apart := missing(request.session.items, beside):
        pytest.skip(f"Too few tests ran to judge: {len(apart)} modules did not, such as {apart[0]}")
    if request.session.testsfailed or beside.failed:
        pytest.skip("Tests failed before, so that less was used than usual")
    assert sorted(str(one) for one in unused(granted, ours) if one.right not in RARE[part]) == []


def test_nothing_was_asked_for_that_is_not_granted(
    asked: Callable[[], list[Request]], beside: reports.Report
) -> None:
    known = {account for part in PARTS for account in accounts(part)}
    ours = [one for one in asked() if one.user in known]
    assert {one.user for one in ours} >= {accounts(part)[0] for part in PARTS}, "not even a watch was seen"
    ours += [one for one in beside.requests if one.user in known]
    secrets = {(one.user, one.namespace) for one in ours if one.allowed and one.right.resource == "secrets"}
    denied = {
        (one.user.rpartition(":")[2], str(one.right), one.namespace)
        for one in ours
        if not one.allowed
        # The rights to an organisation's Secrets come a moment after it.
        and not (one.right.resource == "secrets" and (one.user, one.namespace) in secrets)
    }
    assert sorted(denied) == []


def test_project_pods_have_a_token_that_the_api_server_does_not_know(
    platform: Platform, tenant: Tenant, asked: Callable[[], list[Request]], beside: reports.Report
) -> None:
    tenant.apply(project(PROBE))
    url = tenant.until("orders", "running")["publicUrl"]
    assert http("POST", f"{url}/default-token").body == b"False"
    assert http("POST", f"{url}/own-token").body == b"401"

    # And were such a pod to get a token for the API server, it could do nothing with it.
    (pod,) = tenant.pods("orders")
    account = pod["spec"]["serviceAccountName"]
    assert granted_to(platform.kubectl, tenant.namespace, account) == set()
    name = f"system:serviceaccount:{tenant.namespace}:{account}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{tenant.namespace}", "system:authenticated")
    acting = ("--as", name, *(part for group in groups for part in ("--as-group", group)))
    for verb, resource in (("get", "secrets"), ("list", "pods"), ("get", "projects"), ("create", "pods")):
        said = platform.kubectl(
            "auth", "can-i", verb, resource, *acting, namespace=tenant.namespace, check=False
        )
        assert said.stdout.strip() == "no", (verb, resource)
    # None of all the pods that there were has asked for anything.
    assert {one.user for one in (*asked(), *beside.requests) if one.pod} <= {
        accounts(part)[0] for part in PARTS
    }


def test_namespaces_refuse_pods_that_are_not_restricted(platform: Platform, tenant: Tenant) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root"},
        "spec": {"containers": [{"name": "root", "image": "none", "securityContext": {"privileged": True}}]},
    }
    for namespace in (PLATFORM, tenant.namespace):
        arguments = ("create", "--dry-run=server", "-f", "-")
        done = platform.kubectl(*arguments, namespace=namespace, stdin=json.dumps(pod), check=False)
        assert 'violates PodSecurity "restricted' in done.stderr, namespace
