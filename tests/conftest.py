"""One cluster for the whole session, a namespace for each test, and the platform deployed once."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.harness.cluster.audit_log import requests
from tests.harness.cluster.kubectl import ROOT, Kubectl, Organisation, an_organisation, install_definitions
from tests.harness.identity.keycloak import Keycloak
from tests.harness.session import durations, failures, reports
from tests.harness.session import measurements as measuring
from tests.harness.session.measurements import Measured
from tests.harness.session.prebuild import begin_for
from tests.harness.session.stages import LATE, SLOW
from tests.harness.session.uncaptured_progress import UncapturedProgress
from tieline_cluster.deployment.kubectl import kubectl_for
from tieline_cluster.progress import Progress
from tieline_cluster.providers import Cluster, ClusterProvider, choose_provider

# Otherwise every process that a test starts would compile every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests do not depend on the speed of the machine.
settings.register_profile("no deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no deadline")

CLUSTER = os.environ.get("TIELINE_TEST_CLUSTER", "tests")
KEEP = bool(os.environ.get("TIELINE_TEST_KEEP"))
_KEYCLOAK = pytest.StashKey[Keycloak]()

_STAGES = ("unit", "cluster", "integration", "e2e")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first: what is cheap to know is known before a cluster starts."""

    def stage(item: pytest.Item) -> int:
        path = str(item.path.relative_to(ROOT))
        if path in LATE:
            return len(_STAGES) + 1 + LATE.index(path)
        top, folder, *_ = item.path.relative_to(ROOT).parts
        if top != "tests":
            return 0  # those of the examples
        return _STAGES.index(folder) if folder in _STAGES else len(_STAGES)

    for item in items:
        path = str(item.path.relative_to(ROOT))
        if path.startswith("tests/unit/") and not path.startswith(SLOW):
            item.add_marker(pytest.mark.fast)
    items.sort(key=stage)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What takes minutes to build and is needed late is begun now."""
    if session.config.option.collectonly:
        return
    stop = begin_for(session.items)
    if stop is not None:
        session.config.add_cleanup(stop)
    # It needs half a minute when new, and minutes to install: it starts while other tests run.
    if any("keycloak" in getattr(item, "fixturenames", ()) for item in session.items):
        factory: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        session.config.stash[_KEYCLOAK] = started = Keycloak(factory.mktemp("keycloak"))
        started.start()
        session.config.add_cleanup(started.stop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Notes how long the test itself took."""
    with _noting(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Notes how long it took to take its fixtures down."""
    with _noting(f"fixtures' teardown after {item.nodeid}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """Notes how long a fixture took, without those that it needs."""
    with _noting(f"fixture {fixturedef.argname} ({fixturedef.baseid})"):
        return (yield)


@contextmanager
def _noting(what: str) -> Iterator[None]:
    began, used = time.perf_counter(), durations.processor_time()
    try:
        yield
    finally:
        durations.note(what, time.perf_counter() - began, durations.processor_time() - used)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes what failed."""
    if report.failed:
        failures.note(report.nodeid, report.longreprtext)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """With the summary comes what was measured."""
    measuring.show(terminalreporter, config)


@pytest.fixture(scope="session")
def measured(pytestconfig: pytest.Config) -> Measured:
    """Notes what a test has measured, for people: it is shown at the end."""
    return measuring.noting_in(pytestconfig)


@pytest.fixture(scope="session")
def provider(request: pytest.FixtureRequest) -> ClusterProvider:
    """Where the session's cluster comes from; TIELINE_TEST_PROVIDER and TIELINE_TEST_CLUSTER choose another."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    return choose_provider(
        os.environ.get("TIELINE_TEST_PROVIDER", "auto"),
        name=CLUSTER,
        context=os.environ.get("TIELINE_TEST_CONTEXT"),
        progress=UncapturedProgress(capture),
        **({} if KEEP else {"install": True, "fsync": False, "audit": "accounts", "crash_loop_max": 10}),
    )


@pytest.fixture(scope="session")
def cluster(provider: ClusterProvider, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The session's cluster. TIELINE_TEST_KEEP=1 leaves it up, and takes one that is up as it is."""
    if KEEP:
        yield provider.up()
        return
    with sole_use_of(CLUSTER):
        began = datetime.now(UTC)
        up = provider.up()
        yield up
        if up.audit_log is not None:
            modules = sorted({str(item.path.relative_to(ROOT)) for item in request.session.items})
            failed = bool(request.session.testsfailed)
            reports.write(modules, failed=failed, found=requests(up.audit_log, since=began), since=began)
        provider.down()


@contextmanager
def sole_use_of(name: str) -> Iterator[None]:
    """Two sessions with one cluster would take it from each other."""
    lock = Path(tempfile.gettempdir()) / f"tieline-{name}.lock"
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.exit(
                f"Another test session uses the cluster {name}; set TIELINE_TEST_CLUSTER to another name", 2
            )
        yield


@pytest.fixture(scope="session")
def kubeconfig(cluster: Cluster) -> Path:
    return cluster.kubeconfig


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster) -> Kubectl:
    found = kubectl_for(cluster, Progress())
    return Kubectl(argv=found.argv, kubeconfig=cluster.kubeconfig, context=cluster.context)


@pytest.fixture(scope="session")
def runtime_image(provider: ClusterProvider, cluster: Cluster) -> str:
    """The runtime's image of this checkout, which the cluster's nodes have."""
    return provider.build_images(context=ROOT, targets=["runtime"])["runtime"]


@pytest.fixture(scope="session")
def crds_installed(kubectl: Kubectl) -> None:
    """The definitions of this checkout, established."""
    install_definitions(kubectl, "-k", str(ROOT / "crds"))


@pytest.fixture
def organisation(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    """An organisation of the test's own, removed after it."""
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture
def namespace(organisation: Organisation) -> str:
    return organisation.namespace


@pytest.fixture(scope="session")
def keycloak(request: pytest.FixtureRequest) -> Iterator[Keycloak]:
    """The session's OAuth server; tests register clients and people of their own."""
    found: Keycloak = request.config.stash[_KEYCLOAK]
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with UncapturedProgress(capture).step("Waiting for Keycloak"):
        found.wait()
    yield found
    found.stop()
