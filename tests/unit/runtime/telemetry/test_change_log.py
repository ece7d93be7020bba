"""A pod's log says which changes it serves with, by the texts that the API's and the operator's lines have."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.harness.session.waiting import until
from tests.unit.runtime.external_systems import configured, environment
from tieline.configuration.api_source import ApiSource
from tieline.configuration.current import Configuration
from tieline.configuration.pod_api import PodApi
from tieline.configuration.snapshot import parse
from tieline.configuration.users import ApiUsers
from tieline.telemetry.redaction import Redactor

Line = tuple[str, dict[str, list[str]]]
SHOP = {"connections/shop": "01C.3", "systems/shop": "01S.1"}


def lines(caplog: pytest.LogCaptureFixture) -> list[Line]:
    """What was said of changes since the last look."""
    said = [
        (record.getMessage(), record.__dict__["fields"])
        for record in caplog.records
        if record.name == "tieline.configuration" and "fields" in record.__dict__
    ]
    caplog.clear()
    return said


@pytest.fixture
def configuration(caplog: pytest.LogCaptureFixture) -> Configuration:
    caplog.set_level(logging.INFO)
    return configured()


def serve(configuration: Configuration, changes: Any) -> None:
    configuration.publish(parse(environment("http://x", changes=changes)))


def test_the_start_and_each_change_are_told_once(
    configuration: Configuration, caplog: pytest.LogCaptureFixture
) -> None:
    serve(configuration, SHOP)
    serve(configuration, SHOP)
    assert lines(caplog) == [("Serving with connections/shop, systems/shop", {"changes": ["01C.3", "01S.1"]})]
    serve(configuration, {**SHOP, "connections/shop": "01C.4"})
    assert lines(caplog) == [("Serving with connections/shop", {"changes": ["01C.4"]})]
    serve(configuration, {"systems/shop": "01S.1"})
    assert lines(caplog) == [("Serving without connections/shop", {"gone": ["01C"]})]


def test_the_project_is_not_gone_when_another_version_of_it_is_wanted(
    configuration: Configuration, caplog: pytest.LogCaptureFixture
) -> None:
    serve(configuration, {"projects/orders": "01P.1", **SHOP})
    lines(caplog)
    serve(configuration, SHOP)
    assert lines(caplog) == []
    serve(configuration, {"projects/orders": "01P.3", **SHOP})
    assert lines(caplog) == [("Serving with projects/orders", {"changes": ["01P.3"]})]


def test_very_many_changes_are_lines_that_kubernetes_does_not_tear(
    configuration: Configuration, caplog: pytest.LogCaptureFixture
) -> None:
    many = {f"connections/shop-{number}": f"01C{number}.1" for number in range(250)}
    serve(configuration, many)
    told = lines(caplog)
    assert [change for _, fields in told for change in fields["changes"]] == list(many.values())
    assert [len(fields["changes"]) for _, fields in told] == [100, 100, 50]
    assert told[0][0].endswith("connections/shop-9 and 90 more")
    serve(configuration, {})
    assert [len(fields["gone"]) for _, fields in lines(caplog)] == [100, 100, 50]


@pytest.mark.parametrize("changes", [None, [], "01C.3", {"connections/shop": 3}])
def test_changes_of_another_shape_are_left_out_and_all_else_is_served(
    configuration: Configuration, caplog: pytest.LogCaptureFixture, changes: Any
) -> None:
    serve(configuration, changes)
    assert configuration.current.connection("shop").base_url == "http://x"
    assert lines(caplog) == []


def test_a_local_file_has_no_changes_to_tell(
    configuration: Configuration, caplog: pytest.LogCaptureFixture
) -> None:
    configuration.publish(parse(environment("http://x")))
    assert lines(caplog) == []


async def test_the_api_is_told_which_version_asks(tmp_path: Path) -> None:
    asked: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.query.get("version"))
        return web.json_response(environment("http://x"))

    application = web.Application()
    application.router.add_get("/internal/v1/environment", answer)
    (tmp_path / "token").write_text("pods-token")
    async with TestServer(application) as server:
        for version, told in (("orders-6a0d", "orders-6a0d"), ("", None)):
            asked.clear()
            configuration = Configuration(redactor=Redactor(), needed=True)
            source = ApiSource(
                api_url=str(server.make_url("")).rstrip("/"), token_file=tmp_path / "token", version=version
            )
            task = asyncio.create_task(source.run(configuration.publish))
            await until(lambda found=configuration: found.obtained)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert set(asked) == {told}


async def test_a_users_activation_is_told_when_it_is_taken_up_and_when_it_has_changed(
    client: aiohttp.ClientSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    activation: dict[str, Any] = {
        "id": "01A",
        "changes": {"activations/ann": "01A.1", "endusers/ann": "01U.1"},
    }
    now = 1000.0

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(activation) if activation else web.Response(status=404)

    application = web.Application()
    application.router.add_get("/internal/v1/environment/users/{id}", answer)
    (tmp_path / "token").write_text("pods-token")
    async with TestServer(application) as server:
        url = str(server.make_url("")).rstrip("/")
        users = ApiUsers(PodApi(client, url, tmp_path / "token"), lambda: now)
        for _ in range(2):
            await users.find("ann")
            now += 2
        assert lines(caplog) == [
            ("Serving with activations/ann, endusers/ann", {"changes": ["01A.1", "01U.1"]})
        ]
        activation["changes"] = {"activations/ann": "01A.2", "endusers/ann": "01U.1"}
        await users.find("ann")
        assert lines(caplog) == [("Serving with activations/ann", {"changes": ["01A.2"]})]
        now += 2
        activation.clear()
        await users.find("ann")
        assert lines(caplog) == [("Serving without activations/ann, endusers/ann", {"gone": ["01A", "01U"]})]
