"""Limits hold over pods of all environments and replicas of the API, by the clock of a provider that counts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.counting_provider import Counted
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.stalls import watched_stalls
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_project
from tests.integration.api.pod_api.limited_pods import LimitedPods, limited_pods
from tests.integration.api.pods import account_token

pytestmark = pytest.mark.cluster

_MEASUREMENTS = 4
_LATE = 0.05


@pytest.fixture(scope="module")
def own_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """An engine that a test here may kill."""
    with running_nats_server(tmp_path_factory.mktemp("own-engine")) as running:
        yield running


@pytest.fixture(scope="module")
def limited(
    client: Client,
    kubectl: Kubectl,
    org: Organisation,
    api_kubeconfig: Path,
    own_engine: NatsServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LimitedPods]:
    folder = tmp_path_factory.mktemp("limits")
    with limited_pods(
        client, kubectl=kubectl, org=org, kubeconfig=api_kubeconfig, engine=own_engine, folder=folder,
        seconds=0.02,
    ) as made:  # fmt: skip
        yield made


def measured(limited: LimitedPods, period: float) -> Counted:
    """Again while the machine stalls for longer than requests may be late: they arrive together then."""
    for _ in range(_MEASUREMENTS):
        with watched_stalls() as stalls:
            counted = limited.measure(seconds=8)
        if stalls.longest < period * _LATE:
            break
    return counted


@pytest.mark.parametrize(("requests", "per", "period"), [(100, "1s", 1.0), (300, "5s", 5.0)])
def test_four_pods_never_send_more_than_the_limit(
    limited: LimitedPods, requests: int, per: str, period: float
) -> None:
    limited.limit(requests=requests, per=per)
    counted = measured(limited, period)
    assert counted.worst(period) <= requests * 1.05
    # How much of it is used bench/limits.py measures; here no pod starves.
    assert len(counted.arrived) >= requests
    assert len(counted.by_pod()) == 4
    metrics = limited.pods[0].metrics()
    assert 'template="shop",le="+Inf"' in metrics
    assert "tieline_limit_reached_total{" in metrics


def test_four_pods_never_have_more_requests_under_way_than_the_limit(limited: LimitedPods) -> None:
    limited.limit(concurrent=3)
    counted = limited.measure(seconds=6)
    assert counted.most_at_once <= 3
    assert len(counted.by_pod()) == 4


def test_429_with_retry_after_pauses_all_pods(limited: LimitedPods) -> None:
    limited.limit(requests=100, per="1s")
    limited.provider.reset()
    with ThreadPoolExecutor(4) as pool:
        running = limited.begin(pool, seconds=9)
        eventually("all pods to send", lambda: len(limited.provider.counted().by_pod()) == 4)
        limited.provider.refuse(4)
        for one in running:
            assert one.result()["sent"] > 0
    # For four seconds less the second in which all pods have heard of it, nobody sends anything.
    times = sorted(at for at, _ in limited.provider.counted().arrived)
    longest = max(later - earlier for earlier, later in pairwise(times))
    assert longest >= 3
    assert any("tieline_limit_pauses_total{" in pod.metrics() for pod in limited.pods)


def test_permits_of_a_killed_pod_come_back(limited: LimitedPods) -> None:
    limited.limit(concurrent=1)
    limited.provider.reset()
    killed, others = limited.pods[0], limited.pods[1:]
    with ThreadPoolExecutor(4) as pool:
        limited.pods = [killed]
        (working,) = limited.begin(pool, seconds=60)
        eventually("the pod to send", lambda: "pod-0" in limited.provider.counted().by_pod())
        killed.signal(signal.SIGKILL)
        assert working.exception(timeout=30) is not None
        limited.pods = others
        limited.work(seconds=14)
        killed.spawn()
        killed.until_ready()
        limited.pods = [killed, *others]
    assert {"pod-1", "pod-2", "pod-3"} <= set(limited.provider.counted().by_pod())


def test_while_the_engine_is_away_each_pod_keeps_to_its_share(
    limited: LimitedPods, own_engine: NatsServer
) -> None:
    limited.limit(requests=100, per="1s")
    own_engine.kill()
    try:
        counted = limited.measure(seconds=5)
    finally:
        own_engine.start()
    assert counted.worst(1.0) <= 105
    assert len(counted.by_pod()) == 4
    assert any("Limits are not coordinated" in pod.log.read_text() for pod in limited.pods)

    # And when it is back, what was sent meanwhile counts.
    assert limited.measure(seconds=8).worst(1.0) <= 105


def test_a_pod_of_another_environment_may_not_use_up_the_limits(
    limited: LimitedPods, client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    limited.limit(concurrent=3)
    stranger = account_token(kubectl, org, make_project(client))
    path = f"/internal/v1/connections/{limited.connection['id']}/limits"
    for token, status in ((stranger, 404), (limited.pods[0].token, 200), ("no-token", 401)):
        pod = Client(limited.replicas[0].url, token, client.organisation)
        answer = pod.at(path, method="POST", body={"pod": "p", "waiting": 1})
        assert answer.status == status, answer.raw
    pod = Client(limited.replicas[0].url, limited.pods[0].token, client.organisation)
    refused = pod.at(path, method="POST", body={"slots": 1})
    assert (refused.status, refused.json["message"]) == (422, "pod must be a text of 1 to 64 characters")
