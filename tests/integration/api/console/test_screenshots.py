"""The pictures of the console in docs/console; `make screenshots` takes them anew."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.integration.api.conftest import Client
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene

pytestmark = pytest.mark.cluster

MOST_BYTES = 160_000
CODE = '''from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("orders", delivery="queued")
async def orders(ctx: Context, request: Request) -> None:
    """Brings an order to the shop."""
    headers = {"Idempotency-Key": ctx.idempotency_key}
    response = await ctx.fetch("shop", "/orders", method="POST", json=await request.json(), headers=headers)
    response.raise_for_status()
'''


def test_the_pictures_are_taken(
    person: Callable[[Client], Person], admin: Client, scene: Scene, tmp_path: Path
) -> None:
    folder = Path(os.environ["SCREENSHOTS"]) if "SCREENSHOTS" in os.environ else tmp_path
    orders = scene.project("Order sync", code=CODE, system="shop")
    scene.environment_is(orders, status="running", lastDeployedAt=_ago(7200))
    for name in ("Invoices to ledger", "Stock levels", "Customer import"):
        scene.environment_is(scene.project(name), status="running")
    broken = scene.project("Shipping labels")
    scene.environment_is(
        broken,
        status="error",
        message="main.py does not load: ModuleNotFoundError: no module named 'carrier'",
    )
    hours = [3, 5, 4, 6, 9, 14, 17, 12, 11, 13, 16, 9, 7, 6, 8, 5, 4, 3, 3, 2, 4, 5, 6, 4]
    went_well = [
        scene.succeeded(
            orders,
            ago=hour * 3600 + place * 37 + 200,
            user=("ann", "bob", "eve")[place % 3],
            task="orders",
            kind="webhook",
        )
        for hour, count in enumerate(hours)
        for place in range(count)
    ]
    for start in range(0, len(went_well), 50):
        scene.runs(orders, *went_well[start : start + 50])
    scene.dead(orders, queued_at=time.time() - 5 * 3600)
    run = scene.dead(orders)
    scene.spans(orders, run)
    ann = person(admin)
    expect(ann.region("Needs attention").get_by_role("link")).to_have_count(2)
    _take(ann, folder / "overview.png")
    ann.open(f"/projects/{orders['id']}/runs/{run}")
    ann.sees("POST /orders")
    _take(ann, folder / "run.png")
    ann.open(f"/projects/{orders['id']}")
    expect(ann.page.get_by_label("The file main.py")).to_be_visible()
    _take(ann, folder / "project.png")
    ann.page.emulate_media(color_scheme="dark")
    ann.open("/overview")
    expect(ann.region("Needs attention").get_by_role("link")).to_have_count(2)
    _take(ann, folder / "overview-dark.png")


def _take(someone: Person, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    someone.page.screenshot(path=file, animations="disabled")
    assert file.stat().st_size < MOST_BYTES


def _ago(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))
