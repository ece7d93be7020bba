"""Environment variables from Secrets: only those that their owners opened to the environment's code."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.unit.operator.objects import project, secret
from tests.unit.operator.project_fixtures import change, reconciling, source
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.credentials.exposure import Exposure
from tieline_core.credentials.validation.secret_facts import ValueFacts, values_of
from tieline_core.kubernetes import resources as r


def variable(name: str = "DB_PASSWORD", *, of: str = "db", key: str = "password") -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": of, "key": key}}}


def opened(*to: str, version: str = "1", keys: tuple[str, ...] = ("password",)) -> dict[str, Any]:
    found = secret("db", *keys)
    found["metadata"]["resourceVersion"] = version
    return {**found, "exposure": Exposure(frozenset(to) if to else None)}


def with_value(content: bytes) -> dict[str, Any]:
    return {**opened(), "values": values_of({"password": b64encode(content).decode()})}


def given(there: ReconcileLoop, environment: str = "production") -> dict[str, Any]:
    """The variables that pods take from Secrets."""
    (container,) = there.deployment(environment)["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one}


async def test_hosts_and_what_the_owner_declared_are_not_masked() -> None:
    keys = ("password", "host", "tenant")
    found = opened(keys=keys)
    found["exposure"] = Exposure(not_secret=frozenset({"tenant"}))
    env = [variable(f"DB_{key.upper()}", key=key) for key in keys]
    there = reconciling(project(runtime={"env": env}))
    there.cluster.put(r.SECRETS, found)
    await there.until_quiet()
    assert given(there).keys() == {"DB_PASSWORD", "DB_HOST", "DB_TENANT"}
    (container,) = there.deployment()["spec"]["template"]["spec"]["containers"]
    assert {"name": "TIELINE_SECRET_ENV", "value": "DB_PASSWORD"} in container["env"]


async def serving(*secrets: dict[str, Any], **spec: Any) -> ReconcileLoop:
    there = reconciling(project(runtime={"env": [variable()]}, **spec))
    there.cluster.put(r.SECRETS, *secrets)
    await there.until_quiet()
    if there.deployment():
        there.kubelet()
        await there.until_quiet()
    return there


async def test_pods_get_a_key_of_a_secret_that_its_owner_opened() -> None:
    there = await serving(opened())
    assert given(there) == {"DB_PASSWORD": {"name": "db", "key": "password"}}
    (container,) = there.deployment()["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert told["TIELINE_SECRET_ENV"] == "DB_PASSWORD"
    assert there.environment()["status"] == "running"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, 'no Secret "db"'),
        ({**opened(), "exposure": None}, "tieline.dev/expose-to-code"),
        (opened("billing"), "order-sync/production"),
        (opened("order-sync/staging"), "order-sync/production"),
        (opened(keys=("username",)), 'no value for the key "password"'),
        (
            {**opened(), "values": ValueFacts(keys=frozenset({"password"}), no_text=frozenset({"password"}))},
            "UTF-8",
        ),
        (with_value(bytes(200_000)), "128 KiB"),
        (with_value(b"a" * 131_000), "128 KiB"),
        (with_value(b"pass\0word"), "NUL"),
    ],
)
async def test_without_it_nothing_starts_and_the_environment_says_what_to_do(
    found: dict[str, Any] | None, words: str
) -> None:
    there = await serving(*([found] if found else []))
    assert there.deployment() is None
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "SecretVariableMissing")
    message = there.environment()["message"]
    assert words in message
    assert "DB_PASSWORD" in message
    await there.changed(r.SECRETS, opened())
    await there.until_quiet()
    assert given(there)


@pytest.mark.parametrize("to", ["order-sync", "order-sync/production"])
async def test_a_secret_can_be_opened_to_one_project_or_environment(to: str) -> None:
    assert given(await serving(opened(to)))


async def test_a_secret_opened_to_production_alone_is_not_for_staging() -> None:
    both = [{"name": name, "version": "latest"} for name in ("production", "staging")]
    there = await serving(opened("order-sync/production"), environments=both)
    assert given(there, "production")
    assert there.deployment("staging") is None


async def test_a_new_value_replaces_the_pods() -> None:
    there = await serving(opened())
    before = there.deployment()["spec"]["template"]["metadata"]["annotations"]
    await there.changed(r.SECRETS, opened(version="2"))
    after = there.deployment()["spec"]["template"]["metadata"]["annotations"]
    assert before["tieline.dev/revision"] != after["tieline.dev/revision"]


async def test_a_secret_that_is_gone_for_a_while_leaves_what_runs_as_it_is() -> None:
    there = await serving(opened())
    before = there.deployment()["spec"]["template"]
    there.cluster.remove(r.SECRETS, "db")
    change(there, source=source("print(2)"))
    await there.until_quiet()
    assert there.deployment()["spec"]["template"] == before
    assert "keeps serving" in there.environment()["message"]
    there.cluster.put(r.SECRETS, opened(version="3"))
    await there.until_quiet()
    assert there.deployment()["spec"]["template"] != before


async def test_a_secret_whose_owner_takes_the_label_away_leaves_the_pods() -> None:
    there = await serving(opened())
    await there.changed(r.SECRETS, {**opened(version="2"), "exposure": None})
    assert given(there) == {}
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "SecretVariableMissing")


async def test_a_variable_that_the_project_no_longer_has_leaves_the_pods_also_while_another_is_missing() -> (
    None
):
    there = await serving(opened())
    change(there, runtime={"env": [variable("OTHER", of="nowhere")]})
    await there.until_quiet()
    assert given(there) == {}


async def test_an_environment_can_be_suspended_while_a_secret_is_missing() -> None:
    there = await serving(opened())
    there.cluster.remove(r.SECRETS, "db")
    change(there, environments=[{"name": "production", "version": "latest", "suspended": True}])
    await there.until_quiet()
    assert there.deployment()["spec"]["replicas"] == 0


async def test_the_platforms_variables_cannot_come_from_a_secret() -> None:
    collector = variable("OTEL_EXPORTER_OTLP_ENDPOINT")
    there = reconciling(project(runtime={"env": [variable(), collector]}))
    there.cluster.put(r.SECRETS, opened())
    await there.until_quiet()
    (container,) = there.deployment()["spec"]["template"]["spec"]["containers"]
    names = [one["name"] for one in container["env"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("content", [b"a" * 130_000, "zw\u00f6lf\nZeilen".encode()])
async def test_a_long_value_and_one_of_several_lines_are_given(content: bytes) -> None:
    assert given(await serving(with_value(content)))
