"""``python -m bench.limits``: how much of a connection's limits four pods use, and how far they exceed them.

Two replicas of the API, an event engine, four pods of two environments and a provider that counts by its own clock are
processes of this machine; KUBECONFIG names the API server. All pods send as much as they may. Periods are counted from
the first request. The floors are requests without limits.
"""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

from bench.figures import load_average, table
from bench.prerequisites import cluster
from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.processes.counting_provider import Counted
from tests.harness.processes.nats_server import running_nats_server
from tests.harness.processes.running_api import RunningApi
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.pod_api.limited_pods import LimitedPods, limited_pods
from tieline_protocol.request_limits import RequestLimits

_LIMITS = (
    {"requests": 20, "per": "1s"},
    {"requests": 100, "per": "1s"},
    {"requests": 1000, "per": "1s"},
    {"requests": 300, "per": "10s"},
    {"requests": 100, "per": "1s", "concurrent": 4},
    {"requests": 100, "per": "1s", "concurrent": 40},
)
_WORKERS = 40
_ANSWERS_AFTER = 0.02
_BEGINNING = 1.0


def _rates(pods: LimitedPods, limits: dict[str, int | str], seconds: float) -> list[str]:
    pods.limit(**limits)
    parsed = RequestLimits.parse(limits)
    requests, period = parsed.requests or 0, parsed.seconds
    periods = max(2, round(seconds / period))
    # What was sent before counts no more.
    time.sleep(parsed.window)
    counted = pods.measure(seconds=periods * period + _BEGINNING, workers=_WORKERS)
    got = counted.between(0, periods * period) / periods
    worst = counted.worst(period)
    return [
        str(parsed), f"{got:,.1f}", f"{got / requests:.0%}", f"{worst:,}", f"{worst / requests - 1:+.1%}",
        f"{counted.most_at_once}", _evenness(counted),
    ]  # fmt: skip


def _without(pods: LimitedPods, seconds: float) -> list[str]:
    pods.limit()
    counted = pods.measure(seconds=seconds, workers=_WORKERS)
    got = counted.between(0, seconds - _BEGINNING) / (seconds - _BEGINNING)
    return [
        "none",
        f"{got:,.1f}",
        "",
        f"{counted.worst(1.0):,}",
        "",
        f"{counted.most_at_once}",
        _evenness(counted),
    ]


def _evenness(counted: Counted) -> str:
    shares = sorted(counted.by_pod().values())
    return f"{shares[0] / shares[-1]:.2f}"


def _permits(pods: LimitedPods, concurrent: int, seconds: float) -> list[str]:
    pods.limit(concurrent=concurrent)
    counted = pods.measure(seconds=seconds, workers=_WORKERS)
    got = counted.between(_BEGINNING, seconds) / (seconds - _BEGINNING)
    return [f"{concurrent}", f"{counted.most_at_once}", f"{got:,.0f}", _evenness(counted)]


def _each(pods: LimitedPods, limits: dict[str, int | str], seconds: float) -> list[str]:
    """One request at a time in one pod, far below the limit."""
    pods.limit(**limits)
    everyone, pods.pods = pods.pods, pods.pods[:1]
    (said,) = pods.work(seconds=seconds, workers=1)
    pods.pods = everyone
    title = str(RequestLimits.parse(limits)) if limits else "none: the floor"
    return [title, f"{seconds / said['sent'] * 1000:.1f}"]


def _measure(pods: LimitedPods, seconds: float) -> str:
    rates = table(
        f"Limits of a connection, four pods that send all they may (load {load_average()})",
        (
            "limit",
            "got in a period",
            "used",
            "most in any period",
            "above",
            "most at once",
            "least to most of a pod",
        ),
        [*(_rates(pods, limits, seconds) for limits in _LIMITS), _without(pods, seconds)],
    )
    permits = table(
        f"Requests at once, each {_ANSWERS_AFTER * 1000:.0f} ms",
        ("concurrent", "most at once", "requests a second", "least to most of a pod"),
        [_permits(pods, concurrent, seconds) for concurrent in (1, 4, 16)],
    )
    far = [{}, {"requests": 100_000, "per": "1s"}, {"concurrent": 100}]
    each = table(
        f"One request after another, {_ANSWERS_AFTER * 1000:.0f} ms of them the system's",
        ("limit", "ms a request"),
        [_each(pods, limits, seconds / 2) for limits in far],
    )
    return "\n".join((rates, permits, each))


def _administrator(kubectl: Kubectl, organisation: Organisation) -> str:
    namespace = organisation.namespace
    kubectl("create", "serviceaccount", "admin", namespace=namespace)
    binding = ("--clusterrole=tieline-admin", f"--serviceaccount={namespace}:admin")
    kubectl("create", "rolebinding", "admin", *binding, namespace=namespace)
    return kubectl("create", "token", "admin", namespace=namespace).stdout.strip()


def _run(seconds: float) -> str:
    kubeconfig = Path(os.environ.get("KUBECONFIG", Path.home() / ".kube" / "config"))
    kubectl = Kubectl(("kubectl",), kubeconfig)
    with tempfile.TemporaryDirectory() as name, an_organisation(kubectl) as organisation:
        folder = Path(name)
        for part in ("engine", "api"):
            (folder / part).mkdir()
        api = RunningApi(kubeconfig=kubeconfig, log=folder / "api" / "log")
        with running_nats_server(folder / "engine") as engine, api:
            client = Client(api.url, _administrator(kubectl, organisation), organisation.id)
            eventually("the organisation", lambda: client("GET", "/projects").status == 200)
            with limited_pods(
                client, kubectl=kubectl, org=organisation, kubeconfig=kubeconfig, engine=engine, folder=folder,
                seconds=_ANSWERS_AFTER,
            ) as pods:  # fmt: skip
                return _measure(pods, seconds)


async def _prepare() -> None:
    async with cluster():
        pass


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    asyncio.run(_prepare())
    print(_run(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
