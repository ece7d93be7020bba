"""Code reads the lists of each provider of the catalogue, keeps to its limits, and verifies its webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.cluster.kubectl import ROOT
from tests.harness.session.proven import chosen_keys, proven_of, record
from tests.unit.testing.written_projects import folder
from tieline.emulator.connection import EMULATED, connection
from tieline.emulator.provider import Provider
from tieline.testing import EmulatedProvider, Project
from tieline_catalogue import packing
from tieline_catalogue.entry import Proof
from tieline_protocol.signature_presets import PRESETS

CATALOGUE = ROOT / "catalogue"
CODE = """
from tieline import LimitReachedError


@integration.webhook("call", methods=["POST"])
async def call(ctx: Context, request: Request) -> object:
    asked = await request.json()
    try:
        answer = await ctx.fetch(asked["key"], asked["path"])
        await answer.read()
    except LimitReachedError:
        return {"status": "limited"}
    return {"status": answer.status}


@integration.webhook("rows", methods=["POST"])
async def rows(ctx: Context, request: Request) -> object:
    asked = await request.json()
    return [item async for item in ctx.paginate(asked["key"], asked["path"], **asked["options"])]


@integration.webhook("event", connection="events")
async def event(ctx: Context, request: Request) -> object:
    return "verified"
"""
IN_CODE = (Proof.LIST, Proof.WEBHOOK, Proof.LIMIT)
"""What is shown here; tests/integration/catalogue shows the rest."""


def entries() -> list[str]:
    """The keys of chosen entries whose connection the emulator can have; of all where none are chosen."""
    return [
        key
        for key in chosen_keys(packing.keys(CATALOGUE))
        if any(one["type"] in EMULATED for one in _system(key)["authSchemeConfigs"])
    ]


def _system(key: str) -> dict[str, Any]:
    found: dict[str, Any] = packing.read_entry(CATALOGUE / f"{key}.yaml")["system"]
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(folder(tmp_path_factory.mktemp("project"), CODE)) as running:
        yield running


@pytest.mark.parametrize("key", entries())
def test_code_works_with_a_provider(project: Project, key: str) -> None:
    system, provider = _system(key), project.provider(key)
    shown: list[Proof] = []
    if lists := provider.lists:
        for one in lists:
            options = {"method": "POST", "json": {}} if one.is_posted else {}
            rows = project.post("/rows", json={"key": key, "path": one.path, "options": options})
            assert rows.status == 200, (one.path, rows.text[:500], _logged(project))
            assert len(rows.json()) == one.items, one.path
        shown.append(Proof.LIST)
    if any(one["type"] == "hmac" and _is_known(one["hmac"]) for one in system["authSchemeConfigs"]):
        provider.signs_for("events")
        assert provider.send_webhook("/event").text == "verified", _logged(project)
        shown.append(Proof.WEBHOOK)
    if system.get("limits"):
        _reach_limit(project, provider, key)
        shown.append(Proof.LIMIT)
    record(key, shown, among=IN_CODE)
    assert set(shown) == proven_of(key, among=IN_CODE)


def _reach_limit(project: Project, provider: EmulatedProvider, key: str) -> None:
    """The provider says once that it is too much: the code waits as long as it says, or for a retry."""
    provider.on("GET", "/emulated-call").answer(json={})
    provider.limit(1, duration=300)
    waited = len(project.waits)
    answer = project.post("/call", json={"key": key, "path": "/emulated-call"}).json()
    has_waited = answer == {"status": 200} and len(project.waits) > waited
    assert answer == {"status": "limited"} or has_waited, answer


def _is_known(options: dict[str, Any]) -> bool:
    """Whether the emulator can sign so: not with certificates that a sender publishes at its own hosts."""
    return not PRESETS[options["preset"]].certificates if "preset" in options else True


def _logged(project: Project) -> list[str]:
    return [one.error or one.message for one in project.logs[-4:]]


def test_code_asks_graphql_where_the_provider_has_it() -> None:
    monday = Provider({"key": "monday", "system": _system("monday")})
    assert connection(monday, "http://127.0.0.1:9100")["graphqlPath"] == "/v2"
