"""Two replicas as two processes: what a client writes through one it reads through the other."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.kubectl import Organisation
from tests.harness.relay import Relay, through_relay
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.objects import API_KEY, make_system
from tieline_core.ids import new_id, static_activation_id

pytestmark = pytest.mark.cluster

REVISION = "X-Tieline-Revision"


def _port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _start(kubeconfig: Path, port: int, *, shutdown: float = 1) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "TIELINE_LISTEN_HOST": "127.0.0.1",
        "TIELINE_LISTEN_PORT": str(port),
        "TIELINE_DRAIN_SECONDS": "0",
        "TIELINE_SHUTDOWN_SECONDS": str(shutdown),
        "TIELINE_REVISION_SECONDS": "1",
        "TIELINE_RATE_LIMIT": "0",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tieline_api.main"], env=environment, stdout=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def relay(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Relay, Path]:
    """A relay that only the second replica goes through."""
    return through_relay(api_kubeconfig, tmp_path_factory.mktemp("relay") / "kubeconfig")


@pytest.fixture(scope="module")
def replicas(
    api_kubeconfig: Path, relay: tuple[Relay, Path], client: Client, org: Organisation
) -> Iterator[tuple[Client, Client]]:
    """Two processes; the second one's way to the API server can be held up."""
    ports = [_port(), _port()]
    processes = [_start(api_kubeconfig, ports[0]), _start(relay[1], ports[1])]
    made = [Client(f"http://127.0.0.1:{port}", client.token, org.id) for port in ports]
    try:
        until = time.monotonic() + 60
        for one in made:
            while not _ready(one):
                assert time.monotonic() < until, "a replica does not get ready"
                time.sleep(0.1)
        yield made[0], made[1]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            assert process.wait(20) == 0, "a replica ends orderly"


def _ready(one: Client) -> bool:
    try:
        return one.at("/readyz").status == 200
    except OSError:
        return False


def _body(number: int) -> dict[str, object]:
    return {
        "name": f"Replicated {number}",
        "domain": "shop.example",
        "templateBaseUrl": "https://api.shop.example",
        "authSchemeConfigs": [API_KEY],
    }


def _reads(replica: Client, path: str, revision: str) -> Answer:
    """The first answer that is not 503, which a replica gives that is far behind: never something older."""
    until = time.monotonic() + 15
    while (answer := replica("GET", path, X_Tieline_Revision=revision)).status == 503:
        assert time.monotonic() < until
    return answer


def test_a_client_that_sends_the_revision_back_reads_its_writes_at_once(
    replicas: tuple[Client, Client],
) -> None:
    one, two = replicas
    for number in range(20):
        created = one("POST", "/systems", _body(number))
        assert created.status == 201
        path = f"/systems/{created.json['id']}"
        assert _reads(two, path, created.headers[REVISION]).status == 200
        changed = two("PUT", path, {"name": f"Changed {number}"})
        assert _reads(one, path, changed.headers[REVISION]).json["name"] == f"Changed {number}"
        deleted = one("DELETE", path)
        assert deleted.status == 204
        assert _reads(two, path, deleted.headers[REVISION]).status == 404


def test_cursors_and_etags_of_one_replica_are_good_at_the_other(
    replicas: tuple[Client, Client], client: Client
) -> None:
    one, two = replicas
    last = [make_system(client) for _ in range(3)][-1]
    time.sleep(0.5)
    page = one.ok("GET", "/systems?first=1")
    following = two.ok("GET", f"/systems?first=200&after={page['next']}")
    assert last["id"] in [item["id"] for item in following["items"]]
    assert page["items"][0]["id"] not in [item["id"] for item in following["items"]]
    etag = one("GET", f"/systems/{last['id']}").headers["ETag"]
    assert two("GET", f"/systems/{last['id']}", If_None_Match=etag).status == 304
    assert two("PUT", f"/systems/{last['id']}", {"name": "By ETag"}, If_Match=etag).status == 201
    assert one("PUT", f"/systems/{last['id']}", {"name": "Late"}, If_Match=etag).status == 412


def test_a_replica_that_is_behind_says_so_rather_than_answer_with_something_older(
    replicas: tuple[Client, Client], relay: tuple[Relay, Path]
) -> None:
    one, two = replicas
    old = one("POST", "/systems", _body(100))
    path = f"/systems/{old.json['id']}"
    assert _reads(two, path, old.headers[REVISION]).status == 200
    relay[0].hold()
    try:
        changed = one("PUT", path, {"name": "Newer"})
        behind = two("GET", path, X_Tieline_Revision=changed.headers[REVISION])
        assert (behind.status, behind.json["code"]) == (503, "unavailable")
        assert behind.headers["Retry-After"] == "1"
        stale = two("GET", path)
        assert (stale.status, stale.json["name"]) == (200, "Replicated 100"), (
            "without the header: as it knows"
        )
    finally:
        relay[0].release()
    assert _reads(two, path, changed.headers[REVISION]).json["name"] == "Newer"


def test_a_revision_that_is_none_is_400(replicas: tuple[Client, Client]) -> None:
    assert replicas[0]("GET", "/systems", X_Tieline_Revision="nonsense").status == 400


def test_of_two_who_choose_one_id_at_once_one_has_it_and_its_name(replicas: tuple[Client, Client]) -> None:
    with ThreadPoolExecutor(2) as pool:
        for number in range(10):
            identifier = new_id()
            bodies = [{"name": f"Of {place} {number}", "id": identifier} for place in ("one", "two")]
            answers = list(
                pool.map(
                    lambda pair: pair[0]("POST", "/projects", pair[1]), zip(replicas, bodies, strict=True)
                )
            )
            assert sorted(answer.status for answer in answers) == [200, 409]
            won = next(answer for answer in answers if answer.status == 200)
            lost = next(answer for answer in answers if answer.status == 409)
            assert lost.json["details"] == {"id": identifier}
            path, revision = f"/projects/{identifier}", won.headers[REVISION]
            for replica in replicas:
                assert _reads(replica, path, revision).json["name"] == won.json["name"]


def test_two_who_set_the_first_variables_at_once_both_have_their_say(replicas: tuple[Client, Client]) -> None:
    project = replicas[0]("POST", "/projects", {"name": "Set twice"})
    for replica in replicas:
        _reads(replica, f"/projects/{project.json['id']}", project.headers[REVISION])
    environment = project.json["environments"][0]["id"]
    static = f"/environments/{environment}/variables"
    with ThreadPoolExecutor(2) as pool:
        sent = [
            pool.submit(one, "PATCH", static, {name: 1}) for one, name in zip(replicas, "ab", strict=True)
        ]
        answers = [one.result(30) for one in sent]
    assert [answer.status for answer in answers] == [200, 200]
    one = f"/environments/{environment}/activations/{static_activation_id(environment)}"
    versions = (int(answer.headers[REVISION].rpartition(":")[2]) for answer in answers)
    assert _reads(replicas[0], one, f"activations:{max(versions)}").json["dynamicVariables"] == {
        "a": 1,
        "b": 1,
    }


def test_a_replica_that_is_told_to_stop_finishes_what_it_has_begun(
    api_kubeconfig: Path, client: Client, org: Organisation, tmp_path: Path
) -> None:
    relay, kubeconfig = through_relay(api_kubeconfig, tmp_path / "kubeconfig")
    port = _port()
    process = _start(kubeconfig, port, shutdown=20)
    ending = Client(f"http://127.0.0.1:{port}", client.token, org.id)
    until = time.monotonic() + 60
    while not _ready(ending):
        assert time.monotonic() < until
        time.sleep(0.1)
    try:
        system = ending("POST", "/systems", _body(200)).json
        assert ending("PUT", f"/systems/{system['id']}", {"name": "First"}).status == 201
        relay.hold()
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(ending, "PUT", f"/systems/{system['id']}", {"name": "Last"})
            time.sleep(0.5)  # it waits for Kubernetes by now
            process.terminate()
            until = time.monotonic() + 10
            while _accepts(port):
                assert time.monotonic() < until, "it still takes new requests"
                time.sleep(0.05)
            assert not slow.done()
            relay.release()
            answer = slow.result(20)
        assert (answer.status, answer.json["name"]) == (201, "Last")
        assert process.wait(20) == 0
        assert client.ok("GET", f"/systems/{system['id']}")["name"] == "Last"
    finally:
        relay.release()
        process.kill()


def _accepts(port: int) -> bool:
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
            return True
    except OSError:
        return False
