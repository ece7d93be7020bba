"""Limits of connections in tests of integrations: what code does when there is no room, without waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tieline.testing import Project

pytestmark = pytest.mark.fast

CODE = """
import asyncio
from tieline import Context, Event, Integration, LimitReachedError, Request, Retry, SyncContext

integration = Integration()

@integration.webhook("direct")
async def direct(ctx: Context, request: Request) -> int:
    return (await ctx.fetch("shop", "/orders")).status

@integration.webhook("caught")
async def caught(ctx: Context, request: Request) -> str:
    try:
        await ctx.fetch("shop", "/orders")
    except LimitReachedError as error:
        return f"{error.template}, {error.limits}, {error.retry_after:.0f}"
    return "sent"

@integration.webhook("several")
async def several(ctx: Context, request: Request) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(ctx.fetch("shop", "/orders"))

@integration.webhook("mixed")
async def mixed(ctx: Context, request: Request) -> None:
    async def wrong():
        raise ValueError("no order")
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.fetch("shop", "/orders"))
        group.create_task(wrong())

@integration.webhook("plain")
def plain(ctx: SyncContext, request) -> int:
    return ctx.fetch("shop", "/orders").status

@integration.webhook("queued", delivery="queued", retry=Retry(attempts=1))
async def queued(ctx: Context, request: Request) -> None:
    await ctx.fetch("shop", "/orders")

@integration.event("task", retry=Retry(attempts=1))
async def task(ctx: Context, event: Event) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(ctx.fetch("shop", "/orders"))

@integration.event("other", retry=Retry(attempts=1))
async def other(ctx: Context, event: Event) -> None:
    await ctx.fetch("crm", "/people")
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "main.py").write_text(CODE)
    (tmp_path / "connections.yaml").write_text(
        "connections:\n"
        "  shop: {baseUrl: https://shop.example/api, limits: {requests: 100, per: 1m}}\n"
        "  crm: {baseUrl: https://crm.example}\n"
    )
    with Project(tmp_path) as made:
        made.connection("shop").on("GET", "/orders").answer(200)
        made.connection("crm").on("GET", "/people").answer(200)
        yield made


@pytest.mark.parametrize("webhook", ["direct", "several", "plain"])
def test_a_direct_webhook_without_room_tells_its_caller_to_come_again(project: Project, webhook: str) -> None:
    project.connection("shop").reach_limit(timedelta(minutes=5))
    answer = project.post(f"/{webhook}")
    assert (answer.status, answer.json()["code"]) == (503, "limit_reached")
    assert "connection template 'shop' (100 requests in 1m)" in answer.json()["message"]
    assert 290 <= int(answer.headers["Retry-After"]) <= 300
    assert project.connection("shop").requests == []
    project.advance(timedelta(minutes=5))
    assert project.post(f"/{webhook}").status in (200, 204)


def test_another_error_beside_it_is_a_failure(project: Project) -> None:
    project.connection("shop").reach_limit()
    assert project.post("/mixed").status == 500


def test_code_may_say_what_it_answers(project: Project) -> None:
    project.connection("shop").reach_limit(30)
    assert project.post("/caught").text == "shop, 100 requests in 1m, 30"


def _queue(project: Project) -> None:
    assert project.post("/queued").status == 202


def _publish(project: Project) -> None:
    project.publish("task", {})


def _publish_other(project: Project) -> None:
    project.publish("other", {})


@pytest.mark.parametrize(
    ("begin", "template"), [(_queue, "shop"), (_publish, "shop"), (_publish_other, "crm")]
)
def test_an_event_without_room_comes_again_and_no_attempt_is_lost(
    project: Project, begin: Callable[[Project], None], template: str
) -> None:
    connection = project.connection(template)
    connection.reach_limit(timedelta(hours=2))
    begin(project)
    attempts = project.advance(timedelta(hours=2) - timedelta(seconds=1))
    assert [one.status for one in attempts] == ["waiting"]
    assert any("left no room" in entry.message for entry in project.logs)
    attempts = project.advance(timedelta(minutes=2))
    assert [(one.status, one.attempt) for one in attempts] == [("succeeded", 1)]
    assert project.dead_letters == []
    assert connection.requests


def test_a_system_that_asks_for_a_pause_is_obeyed_without_waiting(project: Project) -> None:
    shop = project.connection("shop")
    shop.on("GET", "/orders").answer(429, headers={"Retry-After": "40"}).answer(200)
    assert project.post("/direct").json() == 200
    assert project.waits == [40]
    shop.on("GET", "/orders").answer(429, headers={"Retry-After": "600"}).answer(200)
    answer = project.post("/direct")
    assert (answer.status, answer.json()["code"]) == (503, "limit_reached")
    assert int(answer.headers["Retry-After"]) > 500
    project.advance(timedelta(minutes=10))
    assert project.post("/direct").json() == 200
