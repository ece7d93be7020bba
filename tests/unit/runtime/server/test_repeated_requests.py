"""Requests that a sender, or somebody else, sends again."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.external_systems import scheme_credential
from tests.unit.testing.written_projects import folder
from tieline.events.delivery_memory import MAX_REMEMBERED, DeliveryMemory
from tieline.events.memory import MemoryQueue
from tieline.events.queue import NoEvents
from tieline.http_client.session import Session
from tieline.testing import Project

CODE = """
@integration.webhook("hook", connection="sender", delivery="{delivery}")
async def hook(ctx: Context, request: Request) -> dict:
    ctx.log.info("Ran", id=ctx.delivery.id, duplicate=ctx.delivery.is_duplicate)
    if "fail" in await request.text():
        raise ValueError("not now")
    return {{"duplicate": ctx.delivery.is_duplicate}}
"""
Serve = Callable[..., Project]
KEY = "whsec_c2VjcmV0"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(preset: str, delivery: str) -> Project:
            project = stack.enter_context(Project(folder(tmp_path, CODE.format(delivery=delivery))))
            signer = scheme_credential("hmac", {"preset": preset}, value=KEY)
            project.connection("sender", credentials=[signer])
            return project

        yield start


def captured(project: Project, body: bytes, **headers: str) -> Mapping[str, str]:
    """The headers of a request that is signed now, as somebody on its way sees them."""
    fake = project.connection("sender")
    fake.on("POST", "/hook")
    code = fake.requests
    project._wait(_sign(project, body, headers))
    return {
        name: value
        for name, value in code[-1].headers.items()
        if name.lower() not in ("host", "content-length")
    }


async def _sign(project: Project, body: bytes, headers: Mapping[str, str]) -> None:
    connection = project._configuration.current.connection("sender")
    session = Session(project._client, lambda: connection)
    async with session.post("/hook", data=body, headers=headers) as response:
        await response.read()


def runs(project: Project) -> list[Mapping[str, Any]]:
    return [entry.fields for entry in project.logs if entry.message == "Ran"]


@pytest.mark.parametrize("preset", ["stripe", "buildkite", "standard-webhooks", "github", "shopify"])
def test_a_queued_webhook_runs_a_repeated_request_once(serve: Serve, preset: str) -> None:
    project = serve(preset, "queued")
    headers = captured(project, b'{"id": 1}')
    first = project.post("/hook", data=b'{"id": 1}', headers=headers)
    assert (first.status, set(first.json())) == (202, {"runId"})
    # A replay may bring other headers, such as those of other senders' ids.
    for more in ({}, {"Idempotency-Key": "another"}):
        again = project.post("/hook", data=b'{"id": 1}', headers={**headers, **more})
        assert (again.status, again.json()) == (202, {"duplicate": True})
    project.run_events()
    assert len(runs(project)) == 1
    assert runs(project)[0]["id"]
    # The engine's own deduplication ends after two minutes, the tolerance after five.
    project._offset += 250
    assert project.post("/hook", data=b'{"id": 1}', headers=headers).json() == {"duplicate": True}


def test_a_request_that_was_not_stored_is_accepted_when_it_comes_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = serve("stripe", "queued")
    headers = captured(project, b"{}")
    with monkeypatch.context() as patched:
        patched.setattr(project._queue, "publish", NoEvents().publish)
        assert project.post("/hook", data=b"{}", headers=headers).status == 503
    assert "runId" in project.post("/hook", data=b"{}", headers=headers).json()


@pytest.mark.parametrize("preset", ["stripe", "standard-webhooks", "github"])
def test_a_direct_webhook_is_reported(serve: Serve, preset: str) -> None:
    project = serve(preset, "direct")
    headers = captured(project, b"{}")
    answers = [project.post("/hook", data=b"{}", headers=headers).json()["duplicate"] for _ in range(2)]
    assert answers == [False, True]
    assert len({one["id"] for one in runs(project)}) == 1
    other = captured(project, b"{ }")
    assert project.post("/hook", data=b"{ }", headers=other).json() == {"duplicate": False}


def test_a_request_that_failed_is_no_duplicate(serve: Serve) -> None:
    project = serve("standard-webhooks", "direct")
    headers = captured(project, b'"fail"')
    assert [project.post("/hook", data=b'"fail"', headers=headers).status for _ in range(2)] == [500, 500]
    assert [one["duplicate"] for one in runs(project)] == [False, False]


def test_an_engine_that_is_away_holds_up_no_direct_webhook(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = serve("stripe", "direct")
    headers = captured(project, b"{}")

    async def away(*_arguments: object) -> bool:
        return await NoEvents().publish(None, b"")  # type: ignore[arg-type]

    monkeypatch.setattr(project._queue, "knows_delivery", away)
    monkeypatch.setattr(project._queue, "remember_delivery", away)
    answers = [project.post("/hook", data=b"{}", headers=headers).json()["duplicate"] for _ in range(2)]
    assert answers == [False, True]  # this pod remembers it


async def test_ids_are_forgotten_and_bounded() -> None:
    now = [0.0]
    pods = [DeliveryMemory(queue, clock=lambda: now[0]) for queue in [MemoryQueue(clock=lambda: now[0])] * 2]
    await pods[0].remember("a", 600)
    assert await pods[1].knows("a")
    now[0] = 601
    assert not await pods[0].knows("a")
    alone = DeliveryMemory(NoEvents(), clock=lambda: now[0])
    for number in range(MAX_REMEMBERED + 5):
        await alone.remember(str(number), 600)
    assert len(alone._expiry) == MAX_REMEMBERED
    assert not await alone.knows("4")
    assert await alone.knows("5")
