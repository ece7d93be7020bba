"""A process that dies in the middle of a write leaves all of the old or all of the new, and no litter for long."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes import engine_away
from tests.harness.session.waiting import eventually_async
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_system, make_template
from tieline_api.app import make_dependencies
from tieline_api.auth.authentication import Caller
from tieline_api.cluster.organisations import Organisation as ServedOrganisation
from tieline_api.credentials.credential_secrets import MADE_FOR, secret_references
from tieline_api.dependencies import Dependencies
from tieline_api.gc.secret_gc import SecretCollector
from tieline_api.handlers.projects import delete_project
from tieline_api.handlers.systems import put_auth_scheme
from tieline_api.schemas import connections as rest
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.use_cases.connection_create import create_connections, plan_connection
from tieline_api.use_cases.connection_update import update_connection_object
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import CONNECTIONS, SECRETS, SYSTEMS

pytestmark = pytest.mark.cluster

SCHEMES = [
    {"type": "basic-auth", "basicAuth": {"id": "basic"}},
    {"type": "api-key", "apiKey": {"id": "key", "name": "X-Key", "in": "header"}},
]
_WRITES = frozenset({"apply", "create", "patch", "replace", "delete"})
# A write of two credentials has fewer steps than this.
_MOST_STEPS = 12
Obj = dict[str, Any]


class KilledError(BaseException):
    """The process has died."""


class MortalKube:
    """Dies at a write: just before it is sent, or after it was done and before anybody learns of it."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._left: int | None = None
        self._after = False
        self._dead = False

    def dies(self, *, step: int, after: bool) -> None:
        """At the write after ``step`` others."""
        self._left, self._after, self._dead = step, after, False

    def lives(self) -> None:
        """As a new process would."""
        self._left, self._dead = None, False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._kube, name)
        return self._mortal(found) if name in _WRITES else found

    def _mortal(self, write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wrapped(*arguments: Any, **options: Any) -> Any:
            if self._dead:
                raise KilledError
            if self._left is None:
                return await write(*arguments, **options)
            self._left -= 1
            if self._left >= 0:
                return await write(*arguments, **options)
            self._dead = True
            if self._after:
                await write(*arguments, **options)
            raise KilledError

        return wrapped


@asynccontextmanager
async def process(kubeconfig: Path, tmp: Path) -> AsyncIterator[tuple[Dependencies, MortalKube]]:
    """The API's parts as one process has them."""
    async with await Kube.connect(kubeconfig=kubeconfig) as kube:
        mortal = MortalKube(kube)
        platform = make_dependencies(mortal, engine_away.api_settings(traces_file=str(tmp / "traces.db")))  # type: ignore[arg-type]
        await platform.cluster.start()
        await platform.cluster.synced()
        try:
            yield platform, mortal
        finally:
            await platform.cluster.stop()
            await platform.outgoing.close()


def body(word: str) -> Obj:
    """A name and values that all say ``word``."""
    return {
        "name": word,
        "credentials": [
            {
                "id": "login",
                "authSchemeConfig": SCHEMES[0],
                "credential": {
                    "type": "basic-auth",
                    "name": word,
                    "data": {"basicAuth": {"username": word, "password": word}},
                },
            },
            {
                "id": "key",
                "authSchemeConfig": SCHEMES[1],
                "credential": {"type": "string", "name": word, "data": {"string": {"value": word}}},
            },
        ],
    }


def words(kubectl: Kubectl, namespace: str, connection: Obj) -> set[str]:
    """Every word that a connection and the values that it refers to say."""
    found = {connection["spec"]["name"]}
    for item in connection["spec"]["credentials"]:
        secret = json.loads(
            kubectl("get", "secret", item["secretRef"]["name"], "-o", "json", namespace=namespace).stdout
        )
        found |= {item["name"], *(base64.b64decode(value).decode() for value in secret["data"].values())}
    return found


def live(kubectl: Kubectl, namespace: str, kind: str) -> list[Obj]:
    items: list[Obj] = json.loads(kubectl("get", kind, "-o", "json", namespace=namespace).stdout)["items"]
    return items


async def cut_off(mortal: MortalKube, write: Awaitable[Any]) -> bool:
    """Whether the process died in the middle of a write."""
    try:
        await write
    except KilledError:
        await asyncio.sleep(0.2)  # what the dead process had begun at the same time ends with it
        return True
    finally:
        mortal.lives()
    return False


async def caught_up(platform: Dependencies, namespace: str) -> None:
    """Returns once the caches have all that has been done."""

    async def same() -> bool:
        cluster = platform.cluster
        others = [cache for cache in cluster.watched(namespace) if cache.resource != SECRETS]
        for cache in (*others, cluster.secrets):
            here = {uid_and_version(obj) for obj in cache.list(namespace)}
            of_type = f"type={CREDENTIAL_TYPE}" if cache.resource == SECRETS else None
            there = await platform.kube.list(cache.resource, namespace, field_selector=of_type)
            if here != {uid_and_version(obj) for obj in there}:
                return False
        return True

    await eventually_async("the caches hear of all that has been done", same)


def uid_and_version(obj: Mapping[str, Any]) -> tuple[str, str]:
    return obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]


async def sweep(platform: Dependencies, namespace: str) -> None:
    await caught_up(platform, namespace)
    await SecretCollector(platform.kube, platform.cluster, platform.credentials, grace=0).sweep(namespace)


AT = pytest.mark.parametrize("after", [False, True], ids=["before a step", "after a step"])


@AT
async def test_an_update_that_is_cut_off_anywhere_is_wholly_done_or_not_at_all(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path, tmp_path: Path, after: bool
) -> None:
    _, template = make_template(client, schemes=SCHEMES)
    request = {"connectionTemplateId": template["connectionTemplateId"], "connection": body("old")}
    name = client.ok("POST", "/connections", request, status=201)["id"].lower()
    outcomes: list[set[str]] = []
    async with process(api_kubeconfig, tmp_path) as (platform, mortal):
        for step in range(_MOST_STEPS):
            word = f"new-{step}"
            obj = await platform.kube.get(CONNECTIONS, name, org.namespace)
            system = platform.cluster.referred(platform.cluster.systems, obj, "systemRef")
            update = rest.ConnectionUpdate.model_validate(body(word))
            mortal.dies(step=step, after=after)
            died = await cut_off(
                mortal,
                update_connection_object(platform, update, obj=obj, system=system, organisation=org.id),
            )
            connection = await platform.kube.get(CONNECTIONS, name, org.namespace)
            said = words(kubectl, org.namespace, connection)
            assert len(said) == 1, f"Mixed after step {step}: {said}"
            outcomes.append(said)
            if not died:
                break
        else:
            raise AssertionError("It never ends")
        await sweep(platform, org.namespace)
    assert {"old"} in outcomes, "cut off early, nothing has changed"
    assert outcomes[-1] == {word}
    mine = [s["metadata"]["name"] for s in live(kubectl, org.namespace, "secret")]
    assert {one for one in mine if one.startswith(name)} == secret_references(connection), "no litter"


@AT
async def test_a_creation_that_is_cut_off_leaves_a_whole_connection_or_none(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path, tmp_path: Path, after: bool
) -> None:
    system = make_system(client, SCHEMES)
    _, template = make_template(client, system=system["id"])
    async with process(api_kubeconfig, tmp_path) as (platform, mortal):
        found = platform.cluster.require(
            platform.cluster.templates, org.namespace, template["connectionTemplateId"]
        )
        for step in range(_MOST_STEPS):
            new = rest.NewConnection.model_validate(body(f"made-{step}-{after}"))
            mortal.dies(step=step, after=after)
            planned = plan_connection(
                platform,
                new,
                organisation=ServedOrganisation(id=org.id, namespace=org.namespace),
                template=found,
            )
            if not await cut_off(
                mortal, create_connections(platform, [planned], caller=Caller(username="a test"))
            ):
                break
        else:
            raise AssertionError("It never ends")
        await sweep(platform, org.namespace)
    connections = live(kubectl, org.namespace, "connection")
    made = [one for one in connections if one["spec"]["name"].endswith(f"-{after}")]
    assert made
    for connection in made:
        assert words(kubectl, org.namespace, connection) == {connection["spec"]["name"]}
    secrets = {s["metadata"]["name"]: s for s in live(kubectl, org.namespace, "secret")}
    referred = {name for c in connections for name in secret_references(c)}
    referred |= {name for s in live(kubectl, org.namespace, "system") for name in secret_references(s)}
    ours = {name for name, s in secrets.items() if MADE_FOR in s["metadata"].get("annotations", {})}
    assert ours <= referred, "what the cuts left over is swept"
    for connection in made:
        for name in secret_references(connection):
            owners = secrets[name]["metadata"].get("ownerReferences", [])
            assert [owner["uid"] for owner in owners] == [connection["metadata"]["uid"]], (
                "what stays is adopted"
            )


@AT
async def test_a_schemes_client_secret_is_switched_with_the_scheme(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path, tmp_path: Path, after: bool
) -> None:
    def scheme(word: str) -> Obj:
        grant = {"type": "authorizationCode", "authorizationCode": {"clientId": word, "clientSecret": word}}
        urls = {"tokenUrl": "https://shop.example/t", "authorizeUrl": "https://shop.example/a"}
        return {"type": "oauth2", "oauth2": {"id": "oauth", "grant": grant, **urls}}

    system = make_system(client, [scheme("old")])["id"]
    async with process(api_kubeconfig, tmp_path) as (platform, mortal):
        for step in range(_MOST_STEPS):
            word = f"new-{step}"
            call = SimpleNamespace(
                platform=platform,
                body=AuthSchemeConfig.model_validate(scheme(word)),
                path={"id": "oauth", "system_id": system},
                namespace=org.namespace,
                organisation=org,
                caller=Caller(username="a test"),
                if_match=None,
            )
            mortal.dies(step=step, after=after)
            died = await cut_off(mortal, put_auth_scheme(cast(Any, call)))
            found = await platform.kube.get(SYSTEMS, system.lower(), org.namespace)
            stored = found["spec"]["authSchemeConfigs"][0]["oauth2"]["grant"]["authorizationCode"]
            secret = await platform.kube.get(SECRETS, stored["secretRef"]["name"], org.namespace)
            assert base64.b64decode(secret["data"]["clientSecret"]).decode() == stored["clientId"]
            if not died:
                break
        else:
            raise AssertionError("It never ends")
    assert stored["clientId"] == word


@AT
async def test_a_projects_deletion_that_is_cut_off_can_be_asked_for_again(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path, tmp_path: Path, after: bool
) -> None:
    project, _ = make_template(client)
    environment = project["environments"][0]["id"]
    client.ok("PATCH", f"/environments/{environment}/variables", {"region": "eu"})

    def left() -> list[str]:
        found = live(kubectl, org.namespace, "project,connectiontemplate,activation")
        name = project["id"].lower()
        mine = [one for one in found if one["spec"].get("projectRef", {"name": ""})["name"] == name]
        return [one["kind"] for one in found if one["metadata"]["name"] == name] + [o["kind"] for o in mine]

    assert len(left()) == 3
    async with process(api_kubeconfig, tmp_path) as (platform, mortal):
        for step in range(_MOST_STEPS):
            call = SimpleNamespace(
                platform=platform,
                path={"project_id": project["id"]},
                namespace=org.namespace,
                organisation=org,
            )
            mortal.dies(step=step if step < 2 else _MOST_STEPS, after=after)
            if not await cut_off(mortal, delete_project(cast(Any, call))):
                break
            assert not (set(left()) - {"Project"} and "Project" not in left()), "nothing is orphaned"
            await caught_up(platform, org.namespace)
            if "Project" not in left():
                break
        else:
            raise AssertionError("It never ends")
    assert left() == []


async def test_nothing_that_was_found_lately_or_that_somebody_refers_to_is_swept(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path, tmp_path: Path
) -> None:
    _, template = make_template(client, schemes=SCHEMES)
    request = {"connectionTemplateId": template["connectionTemplateId"], "connection": body("kept")}
    name = client.ok("POST", "/connections", request, status=201)["id"].lower()

    def names() -> set[str]:
        return {s["metadata"]["name"] for s in live(kubectl, org.namespace, "secret")}

    stray = f"{name}-stray-00000000"
    kept = {one for one in names() if one.startswith(name)}
    assert len(kept) == 2
    kubectl("create", "secret", "generic", stray, "--type=tieline.dev/credential", namespace=org.namespace)
    kubectl("annotate", "secret", stray, f"{MADE_FOR}=Connection/{name}", namespace=org.namespace)
    begin = datetime(2026, 11, 26, tzinfo=UTC)
    for seconds, deleted in ((0, False), (599, False), (600, True)):
        # Each time another process, so that a restart does not begin anew.
        async with process(api_kubeconfig, tmp_path) as (platform, _):
            now = begin + timedelta(seconds=seconds)
            sweeping = SecretCollector(
                platform.kube, platform.cluster, platform.credentials, now=partial(now.astimezone, UTC)
            )
            await caught_up(platform, org.namespace)
            assert stray in names()
            assert (await sweeping.sweep(org.namespace) > 0) is deleted
    assert {one for one in names() if one.startswith(name)} == kept
