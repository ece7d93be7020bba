"""Breaks the end on purpose, in each way that the checks are there for, and makes sure that they notice."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from tests.faults.ha_platform import OPERATORS
from tests.faults.history import History
from tests.faults.observation import Observation
from tests.harness.cluster.deployed_platform import http
from tests.integration.operator.running_operator import RunningOperator
from tieline_protocol.event_streams import EventStreams

NOTICED_WITHIN = 15.0


class UnnoticedError(AssertionError):
    """The checks do not see what they are there for."""


def sabotage(history: History, seen: Observation) -> None:
    """One harm after the other to a platform at rest; raises UnnoticedError."""
    stage, namespace = history.stage, history.stage.organisation.namespace
    # Of those that were made or deleted by halves little is judged.
    name, project = next(
        (name, obj)
        for name, obj in seen.projects().items()
        if name in seen.served and history.model.projects[name].complete
    )
    kubernetes_name = project["metadata"]["name"]

    def kubectl(*arguments: str, stdin: str | None = None) -> str:
        return stage.kubectl(*arguments, namespace=namespace, stdin=stdin).stdout

    with _operators_paused(history):
        label = f"tieline.dev/project={kubernetes_name}"
        kubectl("delete", "service", "-l", label, "--wait=false")
        _noticed("a child that is gone", f"{name} has 0 Service", lambda: _complaints(history))
    history.peace()

    register = history.model.projects[name].suspended
    kept = list(register.writes)
    register.settle(not register.value)
    _noticed("an acknowledged write that is lost", f"{name}.suspended is", lambda: _complaints(history))
    register.writes = kept

    orphan = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "sabotage", "labels": {"tieline.dev/project": "nobody"}},
        "data": {"told": stage.mark},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(orphan))
    _noticed("an orphan", "ConfigMap sabotage is left of", lambda: _complaints(history))
    fresh = history.look()[0]
    _noticed("a secret in the open", "A secret stands in ConfigMap sabotage", lambda: history.told(fresh))
    finalizer = {"metadata": {"finalizers": ["example.com/never"], "labels": None}}
    kubectl("patch", "configmap", "sabotage", "--type=merge", "-p", json.dumps(finalizer))
    _noticed("a finalizer", "ConfigMap sabotage has finalizers", lambda: _complaints(history))
    kubectl("patch", "configmap", "sabotage", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    kubectl("delete", "configmap", "sabotage")

    _lost_event(history)
    _swapped_events(history)
    history.peace()
    _second_leader(history, kubernetes_name)
    _used_token(history)


def _lost_event(history: History) -> None:
    """An event that was accepted is deleted before its time comes."""
    events, rest = history.events, history.rests[0]
    run = events.publish("free", delay=2)
    assert run is not None, "no event is accepted at rest"
    (project,) = events.projects()
    streams = EventStreams(rest.organisation, events.parts[project.name].environment)

    async def purge() -> None:
        client = await next(iter(history.stage.engines.values())).environment(streams)
        await client.jetstream().purge_stream(streams.later, subject=streams.waiting(run))
        await client.close()

    asyncio.run(purge())
    time.sleep(4)
    _noticed("an event that is lost", f"accepted as {run}", lambda: history.judged_events().complaints)
    events.publications.pop()


def _swapped_events(history: History) -> None:
    """As if two events of a key had been accepted in the other order."""
    own = history.events.publications
    for _ in range(2):
        run = history.events.publish("keyed", chain="chain-0")
        assert run is not None, (
            "No event with a key is accepted at rest: the project with events is not deployed"
        )
    kept = list(own)
    first, last = own[-2:]
    own[-2:] = replace(first, run=last.run), replace(last, run=first.run)
    _noticed("events out of order", "Out of order", lambda: history.judged_events().complaints)
    own[:] = kept


def _second_leader(history: History, project: str) -> None:
    """A write with the rights of the operator that waits."""
    stage = history.stage
    waiting = next(
        name
        for name in OPERATORS
        if isinstance(process := stage.replicas[name].process, RunningOperator) and not process.ready()
    )
    as_operator = replace(stage.kubectl, kubeconfig=stage.folder / waiting / "own")
    metadata = {"name": project, "annotations": {"example.com/sabotage": "yes"}}
    manifest = {"apiVersion": "tieline.dev/v1alpha1", "kind": "Project", "metadata": metadata}
    as_operator(
        "apply",
        "--server-side",
        "--validate=false",
        "--field-manager=sabotage",
        "-f",
        "-",
        namespace=stage.organisation.namespace,
        stdin=json.dumps(manifest),
    )
    _noticed("a writer that does not lead", f"{waiting} wrote", history.written_down)
    history.began = time.time()


def _used_token(history: History) -> None:
    shop = history.stage.shop
    used = next(one for one in reversed(shop.journal) if one.good)
    token = f"{shop.mark}-refresh-{used.family}-{used.number}"
    http("POST", f"{shop.url}/token", body=f"grant_type=refresh_token&refresh_token={token}".encode())
    _noticed("a refresh token's second use", f"of log-in {used.family} was used", history.written_down)


@contextmanager
def _operators_paused(history: History) -> Iterator[None]:
    processes = [history.stage.replicas[name].process for name in OPERATORS]
    for process in processes:
        process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.signal(signal.SIGCONT)


def _complaints(history: History) -> list[str]:
    return history.look()[1].complaints


def _noticed(what: str, sign: str, complaints: Callable[[], Iterable[str]]) -> None:
    deadline = time.monotonic() + NOTICED_WITHIN
    last: list[str] = []
    while time.monotonic() < deadline:
        last = list(complaints())
        if any(sign in one for one in last):
            return
        time.sleep(0.5)
    raise UnnoticedError(f"{datetime.now(UTC):%H:%M:%S} {what} was not noticed; the complaints were {last}")
