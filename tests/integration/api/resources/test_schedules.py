"""Schedules by REST, with pods as processes that follow them: listed, paused, resumed and run now."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes import api_ports
from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server, of_engine
from tests.integration.api.engine_objects import make_state_streams
from tests.integration.api.objects import MAIN, activate, make_template, stored
from tests.integration.api.pod_api.test_documents import _send as as_pod
from tests.integration.api.pods import account_token
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

CODE = """
import asyncio
import os
from pathlib import Path
from tieline import Context, Integration, ScheduledRun

integration = Integration()
DONE = Path(os.environ["DONE"])


def write(ctx, run):
    user = ctx.activation.user
    with DONE.open("a") as file:
        file.write(f"{run.schedule}|{user.external_id if user else ''}\\n")


@integration.schedule("yearly", "30 2 1 1 *", timezone="Europe/Berlin")
async def yearly(ctx: Context, run: ScheduledRun) -> None:
    write(ctx, run)


@integration.schedule("each", "0 0 1 1 *", activations="users")
async def each(ctx: Context, run: ScheduledRun) -> None:
    write(ctx, run)


@integration.schedule("slow", "0 0 1 1 *", activations="users", parallel=1)
async def slow(ctx: Context, run: ScheduledRun) -> None:
    write(ctx, run)
    await asyncio.sleep(1)


@integration.schedule("tick", "* * * * * *")
async def tick(ctx: Context, run: ScheduledRun) -> None:
    write(ctx, run)
"""


@dataclass
class Environment:
    """A deployed environment, and its pods."""

    client: Client
    kubectl: Kubectl
    org: Organisation
    folder: Path
    stack: ExitStack
    project: dict[str, Any] = field(init=False)
    template: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.project, self.template = make_template(self.client, dynamic=True)
        self.token = account_token(self.kubectl, self.org, self.project)
        self.client.ok("PUT", f"/projects/{self.project['id']}/deploy", {"files": [MAIN]})

    @property
    def id(self) -> str:
        found: str = self.project["environments"][0]["id"]
        return found

    @property
    def path(self) -> str:
        return f"/environments/{self.id}/schedulers"

    @property
    def version(self) -> str:
        (item,) = self.stored()["spec"]["environments"]
        found: str = item["version"]
        return found

    def stored(self) -> dict[str, Any]:
        return stored(self.kubectl, self.org, "project", self.project["id"])

    def pod(self, code: str = CODE, *, at: str = "") -> RunningRuntime:
        return self.stack.enter_context(
            RunningRuntime(
                folder=self.folder / new_id(),
                code=code,
                token=self.token,
                variables={
                    "TIELINE_API_URL": api_ports.INTERNAL[at or self.client.url],
                    "TIELINE_VERSION": self.version,
                    "TIELINE_CLAIM_SECONDS": "6",
                    "DONE": str(self.folder / "done"),
                },
            )
        )

    def user(self) -> str:
        """The external id of one more user with an activation."""
        user, _ = activate(self.client, self.project, self.template, "s3cr3t")
        found: str = user["externalId"]
        return found

    def schedules(self, asked: Client | None = None) -> dict[str, dict[str, Any]]:
        return {one["name"]: one for one in (asked or self.client).ok("GET", self.path)}

    def of(self, name: str, asked: Client | None = None) -> str:
        found = eventually("the schedules", lambda: self.schedules(asked))
        return f"{self.path}/{found[name]['id']}"

    def runs(self, schedule: str) -> Counter[str]:
        """How often it ran, by users."""
        done = self.folder / "done"
        lines = [line.split("|") for line in done.read_text().splitlines()] if done.exists() else []
        return Counter(user for name, user in lines if name == schedule)


@pytest.fixture(scope="module", autouse=True)
def state_streams(engine: NatsServer, org: Organisation, other_org: Organisation) -> None:
    """The organisations' places in the event engine."""
    for one in (org, other_org):
        make_state_streams(engine, one.id)


@pytest.fixture
def environment(client: Client, kubectl: Kubectl, org: Organisation, tmp_path: Path) -> Iterator[Environment]:
    with ExitStack() as stack:
        yield Environment(client, kubectl, org, tmp_path, stack)


def test_a_schedule_is_shown_paused_and_run_for_one_user_on_one_of_the_pods(environment: Environment) -> None:
    client = environment.client
    assert client.ok("GET", environment.path) == []
    ann, ben = environment.user(), environment.user()
    environment.pod()
    environment.pod()
    yearly = environment.of("yearly")
    shown = client.ok("GET", yearly)
    assert list(environment.schedules()) == ["each", "slow", "tick", "yearly"]
    assert shown == {
        "id": yearly.rpartition("/")[2],
        "name": "yearly",
        "schedule": "30 2 1 1 *",
        "url": f"/api/v2/o/{client.organisation}{yearly}",
        "environment_id": environment.id,
        "timezone": "Europe/Berlin",
        "activations": "static",
        "paused": False,
        "nextRun": shown["nextRun"],
    }
    assert shown["nextRun"].endswith("-01-01T01:30:00Z")

    # Run now: for nobody in particular, for one user, and for all of them.
    assert client.answered(client.url + shown["url"], "POST").status == 204
    eventually("the run", lambda: environment.runs("yearly")[""])
    each = environment.of("each")
    assert client("POST", each, {"user": ben}).status == 204
    eventually("the run for one", lambda: environment.runs("each")[ben])
    assert client("POST", each).status == 204
    eventually("the run for the other", lambda: environment.runs("each")[ann])
    eventually("the second run", lambda: environment.runs("each") == Counter({ann: 1, ben: 2}))
    after = eventually("the run", lambda: _with(client.ok("GET", yearly), "lastRunId"))
    assert after["lastRunStatus"] == "succeeded"
    assert after["lastRun"] >= environment.project["createdAt"]
    run = client.ok("GET", f"/projects/{environment.project['id']}/runs/{after['lastRunId']}")
    assert (run["kind"], run["task"]) == ("schedule", "yearly")

    # A paused schedule skips its times, also in pods that start meanwhile, and runs when it is asked to.
    tick = environment.of("tick")
    eventually("ticks", lambda: environment.runs("tick")[""] > 1)
    assert client.ok("PUT", tick, {"paused": True})["paused"] is True
    paused = client.ok("GET", tick)
    assert (paused["paused"], paused.get("nextRun")) == (True, None)
    counts = _still(environment)
    environment.pod()
    assert client("POST", tick).status == 204
    eventually("the run while paused", lambda: environment.runs("tick")[""] > counts)
    assert _still(environment) == counts + 1
    assert client.ok("PUT", tick, {"paused": False})["nextRun"]
    eventually("ticks again", lambda: environment.runs("tick")[""] > counts + 3)
    assert "pausedSchedules" not in environment.stored()["spec"]["environments"][0]
    assert environment.runs("yearly") == Counter({"": 1})
    assert environment.runs("each") == Counter({ann: 1, ben: 2})


@pytest.fixture
def replicas(api_kubeconfig: Path, engine: NatsServer, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Two replicas that keep schedules in the same place."""
    runs = [tmp_path / name for name in ("runs-1", "runs-2")]
    for folder in runs:
        folder.mkdir()
    one, two = (Server(api_kubeconfig, **of_engine(engine, folder)) for folder in runs)
    with one, two:
        yield one, two


def test_many_that_press_at_once_start_one_run_and_none_twice(
    environment: Environment, replicas: tuple[Server, Server]
) -> None:
    client = environment.client
    first, second = (Client(one.url, client.token, client.organisation) for one in replicas)
    users = [environment.user() for _ in range(3)]
    pod = environment.pod(at=first.url)
    each = environment.of("each", first)
    pod.stop()
    with ThreadPoolExecutor(8) as callers:
        answers = list(
            callers.map(
                lambda number: (first, second)[number % 2]("POST", each, {"user": users[number % 3]}),
                range(12),
            )
        )
    assert {answer.status for answer in answers} == {204}
    assert len([one for one in answers if "already requested" in one.headers.get("Warning", "")]) == 9
    environment.pod(at=first.url)
    environment.pod(at=second.url)
    eventually("the runs", lambda: len(environment.runs("each")) == 3)
    # Everything that is asked for is run in order: once this one has run, none of the earlier ones is left.
    assert second("POST", each, {"user": users[0]}).status == 204
    eventually("one more run", lambda: environment.runs("each")[users[0]] == 2)
    assert environment.runs("each") == Counter({users[0]: 2, users[1]: 1, users[2]: 1})
    ended = eventually("the last run", lambda: _with(second("GET", each).json, "lastRun"))
    assert ended["lastRun"] >= environment.project["createdAt"]


def test_a_pod_that_is_killed_half_way_leaves_the_rest_to_another(environment: Environment) -> None:
    users = {environment.user() for _ in range(6)}
    first = environment.pod()
    slow = environment.of("slow")
    assert environment.client("POST", slow).status == 204
    eventually("some runs", lambda: len(environment.runs("slow")) >= 2)
    first.signal(signal.SIGKILL)
    first.stop()
    before = environment.runs("slow")
    assert len(before) < 6
    environment.pod()
    eventually("all users", lambda: set(environment.runs("slow")) == users)
    after = environment.runs("slow")
    # What was under way when it died, or had ended right before, is repeated.
    assert max(after.values()) <= 2
    assert {user for user, count in after.items() if count == 2} <= set(before)


def test_what_cannot_be_run_is_refused_with_a_sentence(environment: Environment, neighbour: Client) -> None:
    client = environment.client
    environment.user()
    environment.pod()
    each, yearly = environment.of("each"), environment.of("yearly")
    stranger = client.ok("POST", "/users", {"externalId": new_id()}, status=201)["externalId"]
    for path, body, words in (
        (each, {"user": "nobody"}, "is no user of this organisation"),
        (each, {"user": stranger}, "has no activation on the environment"),
        (yearly, {"user": stranger}, "runs for no user"),
        (each, {"user": 7}, "string"),
    ):
        refused = client("POST", path, body)
        assert (refused.status, refused.fields) == (422, ["user"])
        assert words in refused.json["fields"][0]["message"]
    assert client("PUT", each, {}).fields == ["paused"]
    assert client("PUT", each, {"paused": "yes"}).status == 422
    for path in (f"{environment.path}/{new_id()}", f"{environment.path}/each", f"{environment.path}/%00"):
        for method, body in (("GET", None), ("POST", None), ("PUT", {"paused": True})):
            assert client(method, path, body).status in (400, 404)
            assert neighbour(method, each, body).status == 404
    assert neighbour("GET", environment.path).status == 404

    client.ok("POST", f"/projects/{environment.project['id']}/suspend?environment=production")
    refused = client("POST", each)
    assert (refused.status, "is suspended" in refused.json["message"]) == (409, True)
    assert "nextRun" not in client.ok("GET", each)
    draft, _ = make_template(client)
    assert client.ok("GET", f"/environments/{draft['environments'][0]['id']}/schedulers") == []


def test_who_may_only_read_neither_runs_nor_pauses(
    environment: Environment, token_for: Callable[..., str], org: Organisation
) -> None:
    client = environment.client
    environment.pod()
    each = environment.of("each")
    reader = Client(client.url, token_for(org.namespace, "reader", "tieline-viewer"), client.organisation)
    eventually("the role", lambda: reader("GET", each).status == 200)
    assert reader("POST", each).status == 403
    assert reader("PUT", each, {"paused": True}).status == 403


def test_a_pause_that_git_owns_is_a_conflict_that_names_it(environment: Environment) -> None:
    client, kubectl = environment.client, environment.kubectl
    environment.pod()
    tick = environment.of("tick")
    name = environment.project["id"].lower()
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": name, "namespace": environment.org.namespace},
        "spec": {"environments": [{"name": "production", "pausedSchedules": ["tick"]}]},
    }
    kubectl("apply", "--server-side", "--field-manager=argocd", "-f", "-", stdin=json.dumps(manifest))
    eventually("the pause", lambda: client.ok("GET", tick)["paused"])
    _still(environment)
    refused = client("PUT", tick, {"paused": False})
    assert (refused.status, "argocd" in refused.json["message"]) == (409, True)
    stale = client("PUT", tick, {"paused": True}, If_Match='"1"')
    assert stale.status == 412


def test_each_version_has_the_schedules_of_its_own_code(environment: Environment) -> None:
    client, token = environment.client, environment.token

    def tell(version: str, *names: str) -> None:
        schedules = [
            {"name": one, "cron": "0 0 1 1 *", "timezone": "UTC", "activations": "static"} for one in names
        ]
        answer = as_pod(client, token, "PUT", "/schedules", {"version": version, "schedules": schedules})
        assert answer.status == 204, answer.raw

    tell(environment.version, "kept", "removed")
    before = environment.schedules()
    assert list(before) == ["kept", "removed"]
    old = environment.version
    client.ok(
        "PUT", f"/projects/{environment.project['id']}/deploy", {"files": [{**MAIN, "content": "x = 2\n"}]}
    )
    tell(environment.version, "kept")
    # A pod of the old version that starts in the rollout changes nothing for the new one.
    tell(old, "kept", "removed")
    after = environment.schedules()
    assert list(after) == ["kept"]
    assert after["kept"]["id"] == before["kept"]["id"]
    assert client("GET", f"{environment.path}/{before['removed']['id']}").status == 404


@pytest.mark.parametrize(
    "schedules",
    [
        None,
        {},
        [{}],
        [{"name": "../x", "cron": "* * * * *", "timezone": "UTC", "activations": "static"}],
        [{"name": "a" * 101, "cron": "* * * * *", "timezone": "UTC", "activations": "static"}],
        [{"name": "a", "cron": "*" * 257, "timezone": "UTC", "activations": "static"}],
        [{"name": "a", "cron": "* * * * *", "timezone": "UTC", "activations": "all"}],
        [{"name": "a", "cron": "* * * * *", "timezone": "UTC", "activations": "static"}] * 2,
        [
            {"name": f"a{number}", "cron": "* * * * *", "timezone": "UTC", "activations": "static"}
            for number in range(51)
        ],
    ],
)
def test_what_a_hostile_pod_tells_is_refused(environment: Environment, schedules: Any) -> None:
    body = {"version": "v", "schedules": schedules}
    answer = as_pod(environment.client, environment.token, "PUT", "/schedules", body)
    assert answer.status == 422
    assert environment.client.ok("GET", environment.path) == []


@pytest.mark.parametrize(
    ("cron", "zone"), [("0 0 30 2 *", "UTC"), ("61 * * * *", "UTC"), ("* * * * *", "../../etc/passwd")]
)
def test_schedules_of_no_time_or_zone_are_refused(environment: Environment, cron: str, zone: str) -> None:
    schedule = {"name": "a", "cron": cron, "timezone": zone, "activations": "static"}
    body = {"version": environment.version, "schedules": [schedule]}
    refused = as_pod(environment.client, environment.token, "PUT", "/schedules", body)
    assert (refused.status, refused.json["fields"][0]["field"]) == (422, "schedules[0]")


def test_what_pods_wrote_down_of_a_schedule_is_not_trusted(environment: Environment) -> None:
    client, token = environment.client, environment.token
    schedule = {"name": "c", "cron": "0 0 1 1 *", "timezone": "UTC", "activations": "static"}
    body = {"version": environment.version, "schedules": [schedule]}
    assert as_pod(client, token, "PUT", "/schedules", body).status == 204
    record = {
        "settled": "9999-12-31T23:59:59+00:00",
        "times": 7,
        "sweep": [1],
        "claimed": {"x": 1},
        "ran": "never",
    }
    assert as_pod(client, token, "PUT", "/schedules/c", {"value": record}).status == 200
    shown = environment.schedules()
    assert shown["c"]["nextRun"]
    assert "lastRun" not in shown["c"]


def _with(found: dict[str, Any], name: str) -> dict[str, Any] | None:
    return found if name in found else None


def _still(environment: Environment) -> int:
    """How often the schedule of each second has run, once it does no more."""
    seen = [environment.runs("tick")[""]]

    def stands() -> bool:
        seen.append(environment.runs("tick")[""])
        return len(seen) > 12 and len(set(seen[-12:])) == 1

    eventually("no tick", stands)
    return seen[-1]
