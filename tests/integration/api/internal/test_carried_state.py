"""State of earlier releases, in ConfigMaps, goes to the event engine: once, whole, and whatever dies meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client, Server, of_engine
from tests.integration.api.engine_objects import make_state_streams
from tests.integration.api.objects import make_template
from tests.integration.api.pods import ENVIRONMENT, account_token
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.names import schedules_name, state_name, workload_name

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def own_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """An engine that tests here may kill."""
    with running_nats_server(tmp_path_factory.mktemp("own-engine")) as running:
        yield running


@pytest.fixture(scope="module")
def replicas(
    api_kubeconfig: Path, own_engine: NatsServer, org: Organisation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    make_state_streams(own_engine, org.id)
    folders = [tmp_path_factory.mktemp("runs") for _ in range(2)]
    one, other = (Server(api_kubeconfig, **of_engine(own_engine, folder)) for folder in folders)
    with one, other:
        yield one, other


@dataclass
class Place:
    """An environment, its pods at both replicas, and its ConfigMaps."""

    replicas: tuple[Server, Server]
    kubectl: Kubectl
    namespace: str
    workload: str
    token: str

    def send(self, method: str, path: str, body: Any = None, *, replica: int = 0) -> Answer:
        return Client(self.replicas[replica].url, self.token, "").at(
            ENVIRONMENT + path, method=method, body=body
        )

    def has(self, name: str, label: str = "tieline.dev/state=true", **values: Any) -> str:
        """A ConfigMap as the earlier release wrote it; returns its name. Replicas look at all of them again."""
        documents = {
            key: json.dumps({"version": f"{number:016x}", "at": "2026-11-20T00:00:00Z", "value": value})
            for number, (key, value) in enumerate(values.items(), 1)
        }
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": dict([label.split("=")])},
            "data": documents,
        }
        self.kubectl("apply", "-f", "-", namespace=self.namespace, stdin=json.dumps(body))
        self.look_again()
        return name

    def look_again(self) -> None:
        for server in self.replicas:
            server.platform.documents._carry_over._looked_at = None  # type: ignore[attr-defined]

    def config_map(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.kubectl("get", "configmap", name, "-ojson", namespace=self.namespace).stdout
        )
        return found

    def emptied(self, name: str) -> bool:
        found = self.config_map(name)
        return not found.get("data") and found["metadata"]["labels"] == {"tieline.dev/carried-state": "done"}

    @property
    def state(self) -> str:
        return state_name(self.workload, None)


@pytest.fixture
def place(replicas: tuple[Server, Server], client: Client, kubectl: Kubectl, org: Organisation) -> Place:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    made = Place(replicas, kubectl, org.namespace, workload_name(project["id"].lower(), "production"), token)
    for number in range(2):
        eventually("the environment", lambda n=number: made.send("GET", "/state", replica=n).status == 200)
    return made


def test_state_and_schedules_are_there_after_an_upgrade_and_versions_stay_valid(place: Place) -> None:
    state = place.has(place.state, cursor={"page": 1}, seen=[1, 2])
    schedules = place.has(schedules_name(place.workload), sync={"settled": "x"})
    found = place.send("GET", "/state/cursor").json
    assert found == {"value": {"page": 1}, "version": f"{1:016x}"}
    assert place.send("GET", "/state").json == {"keys": ["cursor", "seen"]}
    assert place.emptied(state)
    stale = place.send("PUT", "/state/cursor", {"value": 2, "version": f"{2:016x}"})
    assert stale.status == 409
    # A pod renews the claim that it made before the upgrade.
    claim = place.send("PUT", "/schedules/sync", {"value": {"settled": "y"}, "version": f"{1:016x}"})
    assert claim.status == 200, claim.raw
    assert place.send("PUT", "/schedules/sync", {"value": 1, "version": f"{1:016x}"}).status == 409
    assert place.send("GET", "/schedules/sync", replica=1).json["value"] == {"settled": "y"}
    assert place.emptied(schedules)
    assert place.send("DELETE", "/state/seen", {"version": f"{2:016x}"}).status == 204
    assert place.send("GET", "/state/seen", replica=1).status == 404


def test_two_replicas_carry_once_and_bring_nothing_back(place: Place) -> None:
    values: dict[str, Any] = {f"k{number}": number for number in range(30)}
    name = place.has(place.state, **values)

    def forget(number: int) -> int:
        return place.send("DELETE", f"/state/k{number}", replica=number % 2).status

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(forget, range(20))) == {204}
    left = sorted(f"k{number}" for number in range(20, 30))
    for replica in range(2):
        assert place.send("GET", "/state", replica=replica).json == {"keys": left}
    place.look_again()
    for replica in range(2):
        assert place.send("GET", "/state", replica=replica).json == {"keys": left}
    assert place.emptied(name)


def test_what_a_replica_left_half_done_is_finished(place: Place) -> None:
    # It had moved the label, and died.
    name = place.has(place.state, "tieline.dev/carried-state=moving", cursor=1)
    assert place.send("GET", "/state/cursor", replica=1).json["value"] == 1
    assert place.emptied(name)
    # It had copied, and died before it emptied the ConfigMap; the value was deleted since.
    assert place.send("DELETE", "/state/cursor").status == 204
    place.has(name, "tieline.dev/carried-state=moving", cursor=1)
    for replica in range(2):
        assert place.send("GET", "/state/cursor", replica=replica).status == 404
    assert place.emptied(name)


def test_a_config_map_of_a_replica_of_the_earlier_release_adds_what_is_missing(place: Place) -> None:
    assert place.send("PUT", "/state/cursor", {"value": "new"}).status == 200
    name = place.has(place.state, cursor="old", other="old")
    assert place.send("GET", "/state/cursor").json["value"] == "new"
    assert place.send("GET", "/state/other").json["value"] == "old"
    assert place.emptied(name)


def test_a_config_map_of_somebody_else_is_not_touched(place: Place) -> None:
    name = place.has(place.state, "app=mine", cursor="mine")
    assert place.send("GET", "/state/cursor").status == 404
    assert place.send("PUT", "/state/cursor", {"value": 1}).status == 200
    assert json.loads(place.config_map(name)["data"]["cursor"])["value"] == "mine"


def test_nothing_is_lost_while_the_engine_is_away(place: Place, own_engine: NatsServer) -> None:
    assert place.send("PUT", "/state/kept", {"value": 1, "version": None}).status == 200
    name = place.has(schedules_name(place.workload), sync="x")
    own_engine.kill()
    try:
        for path in ("/state/kept", "/schedules/sync"):
            away = place.send("GET", path)
            assert (away.status, away.json["code"]) == (503, "unavailable")
            assert "Retry-After" in away.headers
        assert place.send("PUT", "/state/kept", {"value": 2}).status == 503
        assert place.config_map(name)["data"], "it is emptied once the engine has it"
    finally:
        own_engine.start()

    def at(replica: int, path: str) -> Callable[[], bool]:
        return lambda: place.send("GET", path, replica=replica).status == 200

    for replica in range(2):
        eventually("the engine", at(replica, "/state/kept"))
        assert place.send("GET", "/state/kept", replica=replica).json["value"] in (1, 2)
        assert place.send("GET", "/schedules/sync", replica=replica).json["value"] == "x"
    assert place.emptied(name)


def test_a_full_store_refuses_what_is_new_and_says_which_limit_it_is(
    place: Place, own_engine: NatsServer, org: Organisation
) -> None:
    place.send("PUT", "/state/first", {"value": 1})
    make_state_streams(own_engine, org.id, StreamLimits(state_bytes=400_000))
    try:
        large = {"value": "x" * 200_000}
        assert place.send("PUT", "/state/large", large).status == 200
        full = place.send("PUT", "/state/other", large)
        assert (full.status, full.fields) == (422, ["value"])
        assert "TIELINE_ENGINE_STATE_BYTES" in full.json["message"]
        assert place.send("GET", "/state/other").status == 404
        assert place.send("PUT", "/state/large", {"value": 1}).status == 200
        assert place.send("PUT", "/state/other", large).status == 200
    finally:
        make_state_streams(own_engine, org.id)
