"""Schemas and code that would take hours or gigabytes to check: refused, while others are answered as ever."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.inputs.hostile_schemas import HOSTILE, SLOW_VALUES, doubling, nested, slow
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_project

pytestmark = pytest.mark.cluster


@contextmanager
def neighbours_reads(neighbour: Client) -> Iterator[Callable[[], list[float]]]:
    """Reads another organisation's projects all the while; gives the seconds that each took."""
    taken: list[float] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            began = time.perf_counter()
            assert neighbour("GET", "/projects").status == 200
            taken.append(time.perf_counter() - began)
            time.sleep(0.02)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield lambda: taken
    finally:
        ended.set()
        thread.join(60)
        ordered = sorted(taken)
        print(
            f"{len(ordered)} reads meanwhile: p50 {ordered[len(ordered) // 2] * 1e3:.0f} ms, "
            f"longest {ordered[-1] * 1e3:.0f} ms"
        )


def test_hostile_schemas_are_refused_while_another_organisation_is_answered(
    client: Client, neighbour: Client
) -> None:
    project = make_project(client)
    path = f"/projects/{project['id']}/variables"
    before = client.ok("GET", path)
    with neighbours_reads(neighbour) as taken:
        for name, schema in HOSTILE.items():
            number = len(taken())
            answer = client("PUT", path, schema)
            assert answer.status == 422, (name, answer.raw)
            told = "nested deeper" if name == "depth" else "no usable JSON Schema"
            assert told in answer.json["message"], name
            eventually("a read came through", lambda number=number: len(taken()) > number + 1)
    assert client.ok("GET", path) == before
    patch = {"op": "add", "path": "/properties/x", "value": {"pattern": r"^\p{L}{1000}$"}}
    assert client("PATCH", path, patch).status == 422


def test_values_that_take_too_long_are_refused_and_the_schema_stays_in_use(
    client: Client, neighbour: Client
) -> None:
    project = make_project(client)
    environment = project["environments"][0]["id"]
    client.ok("PUT", f"/projects/{project['id']}/variables", slow())
    path = f"/environments/{environment}/variables"
    with neighbours_reads(neighbour):
        refused = client("PATCH", path, SLOW_VALUES)
    assert refused.status == 422, refused.raw
    assert "make the schema simpler" in refused.json["message"]
    assert client.ok("PATCH", path, {"items": ["a"]}) == {"items": ["a"]}


def test_code_that_takes_too_much_to_read_is_refused(client: Client, neighbour: Client) -> None:
    project = make_project(client)
    files = [
        {"filename": "main.py", "content": "integration = 1\n"},
        {"filename": "costly.py", "content": "a\n" * (512 * 1024 - 1)},
    ]
    with neighbours_reads(neighbour) as taken:
        refused = client("PUT", f"/projects/{project['id']}/deploy", {"files": files})
        eventually("a read came through", lambda: len(taken()) > 1)
    assert refused.status == 422, refused.raw
    (field,) = refused.json["fields"]
    assert field["field"] == "files[costly.py]"
    assert "too much memory" in field["message"]


def test_a_hostile_schema_that_kubectl_stored_is_told_and_holds_nobody_up(
    kubectl: Kubectl, org: Organisation, client: Client, neighbour: Client
) -> None:
    project = make_project(client)
    environment = project["environments"][0]["id"]
    client.ok("PATCH", f"/environments/{environment}/variables", {"x": "eu"})
    patch = json.dumps({"spec": {"dynamicVariablesSchema": doubling(20)}})
    with neighbours_reads(neighbour):
        kubectl(
            "patch", "project", project["id"].lower(), "--type=merge", "-p", patch, namespace=org.namespace
        )

        def told() -> Any:
            answer = client("PATCH", f"/environments/{environment}/variables", {"x": "us"})
            return answer.json if answer.status == 409 else None

        refused = eventually("the schema is known to the API", told)
    assert "schema cannot be used" in refused["message"]
    assert "$ref" in refused["message"]


def test_bodies_that_nest_deeper_than_can_be_stored_are_refused(client: Client) -> None:
    project = make_project(client)
    environment = project["environments"][0]["id"]
    for levels in (300, 900):
        answer = client("PUT", f"/projects/{project['id']}/variables", nested(levels))
        assert answer.status in (400, 422), answer.raw
        answer = client("PATCH", f"/environments/{environment}/variables", {"x": nested(levels)})
        assert answer.status in (400, 422), answer.raw


def test_deep_objects_that_kubectl_stored_keep_nobody_from_reading(
    kubectl: Kubectl, org: Organisation, client: Client, neighbour: Client
) -> None:
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "deep", "namespace": org.namespace},
        "spec": {"name": "Deep", "dynamicVariablesSchema": "DEEP"},
    }
    text = json.dumps(manifest).replace('"DEEP"', '{"not":' * 5_000 + "{}" + "}" * 5_000)
    path = f"/apis/tieline.dev/v1alpha1/namespaces/{org.namespace}/projects"
    kubectl("create", "--raw", path, "-f", "-", stdin=text)
    try:
        # What comes after it is seen, so it was read over.
        made = make_project(neighbour)
        eventually("the watch goes on", lambda: neighbour("GET", f"/projects/{made['id']}").status == 200)

        def own() -> bool:
            return '"Deep"' in json.dumps(client.ok("GET", "/projects"))

        eventually("its own organisation sees it as well", own)
    finally:
        kubectl("delete", "project", "deep", namespace=org.namespace)
