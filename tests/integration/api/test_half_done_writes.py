"""A process that dies in the middle of a write leaves all of the old or all of the new, and no litter for long."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.harness.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_system, make_template
from tieline_api.app import make_platform
from tieline_api.models import connections as rest
from tieline_api.operations.connection_writes import create_connection_object, update_connection_object
from tieline_api.platform import Platform
from tieline_api.settings import Settings
from tieline_api.store.secret_sweep import SecretSweep
from tieline_api.store.secrets import secret_references
from tieline_core.kube import Kube
from tieline_core.kube.resources import CONNECTIONS

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
        self.left: int | None = None
        self.after = False
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._kube, name)
        return self._mortal(found) if name in _WRITES else found

    def _mortal(self, write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wrapped(*arguments: Any, **options: Any) -> Any:
            if self._dead:
                raise KilledError
            if self.left is None:
                return await write(*arguments, **options)
            self.left -= 1
            if self.left >= 0:
                return await write(*arguments, **options)
            self._dead = True
            if self.after:
                await write(*arguments, **options)
            raise KilledError

        return wrapped


@asynccontextmanager
async def process(kubeconfig: Path, tmp: Path) -> AsyncIterator[tuple[Platform, MortalKube]]:
    """The API's parts as one process has them."""
    async with await Kube.connect(kubeconfig=kubeconfig) as kube:
        mortal = MortalKube(kube)
        platform = make_platform(mortal, Settings(traces_file=str(tmp / "traces.db")))  # type: ignore[arg-type]
        await platform.world.start()
        await platform.world.synced()
        try:
            yield platform, mortal
        finally:
            await platform.world.stop()
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


@pytest.mark.parametrize("after", [False, True], ids=["before a step", "after a step"])
def test_an_update_that_is_cut_off_anywhere_is_wholly_done_or_not_at_all(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path, tmp_path: Path, after: bool
) -> None:
    _, template = make_template(client, schemes=SCHEMES)
    created = client.ok(
        "POST",
        "/connections",
        {"connectionTemplateId": template["connectionTemplateId"], "connection": body("old")},
        status=201,
    )
    name = created["id"].lower()

    async def cut(step: int, word: str) -> bool:
        async with process(api_kubeconfig, tmp_path) as (platform, mortal):
            obj = await platform.kube.get(CONNECTIONS, name, org.namespace)
            system = platform.world.referred(platform.world.systems, obj, "systemRef")
            mortal.left, mortal.after = step, after
            update = rest.ConnectionUpdate.model_validate(body(word))
            try:
                await update_connection_object(platform, update, obj=obj, system=system)
            except KilledError:
                return True
            return False

    async def swept() -> int:
        async with process(api_kubeconfig, tmp_path) as (platform, _):
            return await SecretSweep(
                platform.kube, platform.world, platform.credentials, grace=timedelta(seconds=-60)
            ).sweep()

    outcomes: list[set[str]] = []
    for step in range(_MOST_STEPS):
        word = f"new-{step}"
        died = asyncio.run(cut(step, word))
        connection = json.loads(
            kubectl("get", "connection", name, "-o", "json", namespace=org.namespace).stdout
        )
        said = words(kubectl, org.namespace, connection)
        assert len(said) == 1, f"Mixed after step {step}: {said}"
        outcomes.append(said)
        if not died:
            break
    else:
        raise AssertionError("It never ends")
    assert {"old"} in outcomes, "cut off early, nothing has changed"
    assert outcomes[-1] == {word}
    asyncio.run(swept())
    mine = [
        secret["metadata"]["name"]
        for secret in live(kubectl, org.namespace, "secret")
        if secret["metadata"]["name"].startswith(name)
    ]
    assert set(mine) == secret_references(connection), "what the cuts left over is swept"


@pytest.mark.parametrize("after", [False, True], ids=["before a step", "after a step"])
def test_a_creation_that_is_cut_off_leaves_a_whole_connection_or_none(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path, tmp_path: Path, after: bool
) -> None:
    system = make_system(client, SCHEMES)
    _, template = make_template(client, system=system["id"])

    async def cut(step: int, word: str) -> bool:
        async with process(api_kubeconfig, tmp_path) as (platform, mortal):
            found = platform.world.need(
                platform.world.templates, org.namespace, template["connectionTemplateId"]
            )
            mortal.left, mortal.after = step, after
            new = rest.NewConnection.model_validate(body(word))
            with suppress(KilledError):
                await create_connection_object(platform, new, namespace=org.namespace, template=found)
                return False
            return True

    async def swept() -> None:
        async with process(api_kubeconfig, tmp_path) as (platform, _):
            await SecretSweep(
                platform.kube, platform.world, platform.credentials, grace=timedelta(seconds=-60)
            ).sweep()

    for step in range(_MOST_STEPS):
        if not asyncio.run(cut(step, f"made-{step}-{after}")):
            break
    else:
        raise AssertionError("It never ends")
    asyncio.run(swept())
    made = [
        connection
        for connection in live(kubectl, org.namespace, "connection")
        if connection["spec"]["name"].endswith(f"-{after}")
    ]
    assert made
    for connection in made:
        assert words(kubectl, org.namespace, connection) == {connection["spec"]["name"]}
    secrets = {s["metadata"]["name"]: s for s in live(kubectl, org.namespace, "secret")}
    referred = {name for c in live(kubectl, org.namespace, "connection") for name in secret_references(c)}
    referred |= {name for s in live(kubectl, org.namespace, "system") for name in secret_references(s)}
    ours = {
        name for name, s in secrets.items() if "tieline.dev/made-for" in s["metadata"].get("annotations", {})
    }
    assert ours <= referred, "what the cuts left over is swept"
    for connection in made:
        for name in secret_references(connection):
            owners = secrets[name]["metadata"].get("ownerReferences", [])
            assert [owner["uid"] for owner in owners] == [connection["metadata"]["uid"]], (
                "and what stays is adopted"
            )


def test_nothing_that_is_young_or_that_somebody_refers_to_is_swept(
    client: Client, kubectl: Kubectl, org: Organisation, api_kubeconfig: Path, tmp_path: Path
) -> None:
    _, template = make_template(client, schemes=SCHEMES)
    request = {"connectionTemplateId": template["connectionTemplateId"], "connection": body("kept")}
    created = client.ok("POST", "/connections", request, status=201)
    name = created["id"].lower()

    async def sweep(grace: timedelta) -> int:
        async with process(api_kubeconfig, tmp_path) as (platform, _):
            return await SecretSweep(platform.kube, platform.world, platform.credentials, grace=grace).sweep()

    before = {s["metadata"]["name"] for s in live(kubectl, org.namespace, "secret")}
    stray = f"{name}-stray-00000000"
    kubectl("create", "secret", "generic", stray, "--type=tieline.dev/credential", namespace=org.namespace)
    kubectl("annotate", "secret", stray, f"tieline.dev/made-for=Connection/{name}", namespace=org.namespace)
    asyncio.run(sweep(timedelta(minutes=10)))
    assert stray in {s["metadata"]["name"] for s in live(kubectl, org.namespace, "secret")}, "it is young"
    asyncio.run(sweep(timedelta(seconds=-60)))
    assert {s["metadata"]["name"] for s in live(kubectl, org.namespace, "secret")} == before
