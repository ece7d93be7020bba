"""Two replicas as two processes: what a client writes through one it reads through the other."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.running_api import RunningApi
from tests.harness.processes.tcp_relay import Relay, through_relay
from tests.harness.session.waiting import PATIENCE, eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.objects import API_KEY, make_system
from tieline_core.identity.ids import new_id, static_activation_id

pytestmark = pytest.mark.cluster

REVISION = "X-Tieline-Revision"


def _replica(kubeconfig: Path, log: Path, *, shutdown: float = 1) -> RunningApi:
    variables = {
        "TIELINE_DRAIN_SECONDS": "0",
        "TIELINE_SHUTDOWN_SECONDS": str(shutdown),
        "TIELINE_REVISION_SECONDS": "1",
        "TIELINE_RATE_LIMIT": "0",
    }
    return RunningApi(kubeconfig=kubeconfig, log=log, variables=variables)


@pytest.fixture(scope="module")
def relay(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Relay, Path]:
    """A relay that only the second replica goes through."""
    return through_relay(api_kubeconfig, tmp_path_factory.mktemp("relay") / "kubeconfig")


@pytest.fixture(scope="module")
def replicas(
    api_kubeconfig: Path,
    relay: tuple[Relay, Path],
    client: Client,
    org: Organisation,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Client, Client]]:
    """Two processes; the second one's way to the API server can be held up."""
    running = [
        _replica(kubeconfig, tmp_path_factory.mktemp("replica") / "log")
        for kubeconfig in (api_kubeconfig, relay[1])
    ]
    try:
        for one in running:
            one.start()
        yield Client(running[0].url, client.token, org.id), Client(running[1].url, client.token, org.id)
    finally:
        assert [one.stop() for one in running] == [0, 0], "the replicas end orderly"


def _body(number: int) -> dict[str, object]:
    return {
        "name": f"Replicated {number}",
        "domain": "shop.example",
        "templateBaseUrl": "https://api.shop.example",
        "authSchemeConfigs": [API_KEY],
    }


def _reads(replica: Client, path: str, revision: str) -> Answer:
    """The first answer that is not 503, which a replica gives that is far behind: never something older."""

    def current() -> Answer | None:
        answer = replica("GET", path, X_Tieline_Revision=revision)
        return answer if answer.status != 503 else None

    return eventually("a replica that is not behind", current)


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
    for replica in replicas:
        eventually("the system known", lambda one=replica: one("GET", f"/systems/{last['id']}").status == 200)
    page = one.ok("GET", "/systems?first=1")
    seen, following = [page["items"][0]["id"]], page
    while "next" in following:
        # Each replica goes on where the other one has ended.
        one, two = two, one
        following = one.ok("GET", f"/systems?first=200&after={following['next']}")
        seen += [item["id"] for item in following["items"]]
    assert last["id"] in seen
    assert len(seen) == len(set(seen)), "no item twice"
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


def _known(replica: Client, path: str, made: Answer) -> str:
    """The id of what was made, which the replica knows by now."""
    identifier = str(made.json["id"])
    assert _reads(replica, f"{path}/{identifier}", made.headers[REVISION]).status == 200
    return identifier


def test_a_deletion_takes_along_what_was_just_made_through_another_replica(
    replicas: tuple[Client, Client], client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    one, two = replicas
    system = make_system(client)["id"]
    made = one("POST", "/projects", {"name": "Stays"})
    environment = made.json["environments"][0]["id"]
    for number in range(20):
        project = _known(two, "/projects", one("POST", "/projects", {"name": f"Left {number}"}))
        one.ok("POST", f"/projects/{project}/connection-templates", {"systemId": system, "name": "shop"})
        assert two("DELETE", f"/projects/{project}").status == 204
        user = _known(two, "/users", one("POST", "/users", {"externalId": f"left-{number}"}))
        one.ok("POST", "/activations", {"userId": user, "environmentId": environment, "connections": []})
        assert two("DELETE", f"/users/{user}").status == 204
    for kind, owner, field in (
        ("connectiontemplates", "projects", "projectRef"),
        ("activations", "endusers", "endUserRef"),
    ):
        there = _names(kubectl, org, owner, ".metadata.name")
        assert _names(kubectl, org, kind, f".spec.{field}.name") <= there, f"{kind} are left"


def _names(kubectl: Kubectl, org: Organisation, kind: str, path: str) -> set[str]:
    """What objects have at a path."""
    told = kubectl("get", kind, f"-o=jsonpath={{.items[*]{path}}}", namespace=org.namespace)
    return set(told.stdout.split())


def test_a_system_that_is_used_through_another_replica_since_a_moment_is_not_deleted(
    replicas: tuple[Client, Client],
) -> None:
    one, two = replicas
    project = one("POST", "/projects", {"name": "Uses"}).json["id"]
    for number in range(20):
        system = _known(two, "/systems", one("POST", "/systems", _body(300 + number)))
        template = {"systemId": system, "name": f"shop-{number}"}
        one.ok("POST", f"/projects/{project}/connection-templates", template)
        refused = two("DELETE", f"/systems/{system}")
        assert (refused.status, refused.json["usedBy"]) == (409, [f'template "shop-{number}"'])


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
            assert lost.json["id"] == identifier
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
    running = _replica(kubeconfig, tmp_path / "log", shutdown=20)
    running.start()
    ending = Client(running.url, client.token, org.id)
    try:
        system = ending("POST", "/systems", _body(200)).json
        assert ending("PUT", f"/systems/{system['id']}", {"name": "First"}).status == 201
        relay.hold()
        with ThreadPoolExecutor(2) as pool:
            slow = pool.submit(ending, "PUT", f"/systems/{system['id']}", {"name": "Last"})
            time.sleep(0.5)  # it waits for Kubernetes by now
            stopping = pool.submit(running.stop)
            eventually("no new requests taken", lambda: not _accepts(running.port))
            assert not slow.done()
            relay.release()
            answer = slow.result(PATIENCE)
            assert stopping.result(PATIENCE) == 0
        assert (answer.status, answer.json["name"]) == (201, "Last")
        assert client.ok("GET", f"/systems/{system['id']}")["name"] == "Last"
    finally:
        relay.release()
        running.stop()


def _accepts(port: int) -> bool:
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
            return True
    except OSError:
        return False
