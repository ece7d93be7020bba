"""An API that may reach the session's Keycloak, and the application of somebody who embeds connecting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.processes.running_api import RunningApi
from tests.integration.api.conftest import Client
from tests.integration.oauth.front_end import FrontEnd
from tests.integration.operator.cluster_objects import NamespacedKubectl
from tests.integration.operator.running_operator import RunningOperator


@pytest.fixture(scope="session")
def oauth_org(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    """The organisation of the tests here; each makes systems and connections of its own in it."""
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="session")
def front_end() -> Iterator[FrontEnd]:
    """The web application that embeds connecting, on an origin of its own."""
    with FrontEnd() as running:
        yield running


@pytest.fixture(scope="session")
def api(
    api_kubeconfig: Path, front_end: FrontEnd, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningApi]:
    """The API as a process; its log has what it would say in a pod."""
    running = RunningApi(
        kubeconfig=api_kubeconfig,
        log=tmp_path_factory.mktemp("oauth-api") / "log",
        variables={"TIELINE_CORS_ORIGINS": front_end.origin, "TIELINE_EGRESS_ALLOWED": "127.0.0.0/8"},
    )
    with running:
        yield running


@pytest.fixture(scope="session")
def operator(
    operator_kubeconfig: Path, oauth_org: Organisation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningOperator]:
    """The operator, at work in the organisation."""
    running = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=(oauth_org.namespace,),
        log=tmp_path_factory.mktemp("oauth-operator") / "log",
        variables={"TIELINE_EGRESS_ALLOWED": "127.0.0.0/8"},
    )
    with running:
        yield running


@pytest.fixture
def acting(kubectl: Kubectl, oauth_org: Organisation) -> NamespacedKubectl:
    """A user of the organisation with kubectl."""
    return NamespacedKubectl(kubectl=kubectl, namespace=oauth_org.namespace)


@pytest.fixture(scope="session")
def caller(api: RunningApi, oauth_org: Organisation, token_for: Callable[..., str]) -> Client:
    """An administrator of the organisation."""
    return Client(api.url, token_for(oauth_org.namespace, "admin", "tieline-admin"), oauth_org.id)
