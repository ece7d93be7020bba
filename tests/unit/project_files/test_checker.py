"""Files of projects are read in limited processes: usual ones as ever, costly ones at their organisation's expense."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator

import orjson
import pytest

from tests.unit.connectors.project_interface import interface_of
from tieline_core.evaluation import files_jobs
from tieline_core.evaluation.pool import EvaluationBusy, Pool
from tieline_core.evaluation.worker import MIB, Limits
from tieline_core.project_files.checker import FilesChecker
from tieline_core.project_files.deploy_findings import check_files
from tieline_protocol.python_source import named_templates

MAIN = b'''
from tieline import Integration

integration = Integration()


@integration.webhook("orders", methods=["POST"], connection="storefront")
async def orders(ctx, request):
    """Takes an order."""
    await ctx.fetch("shop", "/orders")
    await ctx.fetch("shop", "/others")


@integration.webhook("refund", tool="Refunds an order.", input_schema={"type": "object", "maxProperties": 2})
async def refund(ctx, request): ...


@integration.webhook(f"computed")
async def computed(ctx, request): ...
'''
FILES = [
    ("main.py", MAIN),
    ("lib/broken.py", b"def f(:\n"),
    ("lib/more.py", b'async def f(ctx):\n    await ctx.session("erp")\n'),
    ("openapi.json", b"{}"),
    ("../up.py", b""),
]
# Half a megabyte that the parser makes hundreds of megabytes of.
COSTLY = b"a\n" * (256 * 1024)


@pytest.fixture
async def checker() -> AsyncIterator[FilesChecker]:
    made = FilesChecker(Pool("files", Limits(memory=192 * MIB, cpu_seconds=2.0)))
    yield made
    await made.close()


async def test_tasks_for_events_are_known_where_all_files_show_theirs(checker: FilesChecker) -> None:
    files = [
        ("main.py", b"@integration.event('order.created')\nasync def created(ctx): ..."),
        ("more.py", b"@integration.event('order.paid')\nasync def paid(ctx): ..."),
    ]
    seen = (await checker.check("acme", files, {})).interface
    assert seen.events == ("order.created", "order.paid")
    computed = ("computed.py", b"integration.event(NAME)(f)")
    unseen = (await checker.check("acme", [*files, computed], {})).interface
    assert unseen.events is None
    # What others see of the project is the same: it gets no other connector.
    assert unseen.digest == seen.digest


async def test_what_is_in_files_is_what_reading_them_here_finds(checker: FilesChecker) -> None:
    found = await checker.check("acme", FILES, {"1bad": "label"})
    expected = check_files(sorted(FILES), {"1bad": "label"}, None)
    assert list(found.findings) == expected
    assert {item.filename for item in expected} >= {"lib/broken.py", "../up.py"}
    assert found.templates == named_templates(sorted(FILES))
    assert found.templates.keys() == {"shop", "storefront", "erp"}
    assert found.interface == interface_of(FILES)
    assert [webhook.name for webhook in found.interface.webhooks] == ["orders", "refund"]
    assert found.interface.webhooks[1].tool == "Refunds an order."
    assert found.interface.webhooks[1].input_schema == {"type": "object", "maxProperties": 2}
    assert len(found.interface.findings) == 1


async def test_a_file_that_takes_too_much_is_an_error_and_the_others_are_read(checker: FilesChecker) -> None:
    found = await checker.check("acme", [("a.py", COSTLY), ("main.py", MAIN)], {})
    (finding,) = found.findings
    assert finding.filename == "a.py"
    assert "too much memory" in finding.message
    assert found.templates.keys() == {"shop", "storefront"}


async def test_after_three_such_files_the_rest_is_not_read() -> None:
    checker = FilesChecker(Pool("files", Limits(cpu_seconds=0.1)))
    files = [(f"a{number}.py", COSTLY) for number in range(5)]
    found = await checker.check("acme", [*files, ("main.py", MAIN)], {})
    assert [item.filename for item in found.findings] == [
        "a0.py",
        "a1.py",
        "a2.py",
        "a3.py",
        "a4.py",
        "main.py",
    ]
    told = [item.message for item in found.findings]
    assert len(set(told[:3])) == 1
    assert set(told[3:]) == {"not read, because other files take too much: correct those first"}
    await checker.close()


async def test_another_organisation_is_served_while_costly_files_are_read(checker: FilesChecker) -> None:
    files = [("a.py", COSTLY), ("b.py", COSTLY), ("main.py", MAIN)]
    costly = [asyncio.create_task(checker.check("bad", files, {})) for _ in range(3)]
    await asyncio.sleep(0)
    await checker.check("good", [("main.py", MAIN)], {})
    assert not all(task.done() for task in costly)
    for found in await asyncio.gather(*costly):
        assert len(found.findings) == 2


async def test_who_has_too_much_waiting_is_told_to_try_again(checker: FilesChecker) -> None:
    waiting = [asyncio.create_task(checker.check("acme", [("main.py", MAIN)], {})) for _ in range(64)]
    await asyncio.sleep(0)
    with pytest.raises(EvaluationBusy):
        await checker.check("acme", [("main.py", MAIN)], {})
    assert len(await asyncio.gather(*waiting)) == 64
    await checker.check("acme", [("main.py", MAIN)], {})


async def test_who_gives_up_waiting_leaves_nothing_behind(checker: FilesChecker) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await checker.check("acme", [("a.py", COSTLY)] * 4, {})
    assert not checker._waiting
    found = await checker.check("acme", [("main.py", MAIN)], {})
    assert not found.findings


async def test_what_who_gave_up_had_waiting_is_let_go_at_once(checker: FilesChecker) -> None:
    def held() -> int:
        jobs = [job for queue in checker._pool._waiting.values() for job in queue]
        return sum(len(content) for job in jobs for _, content in job.code)  # type: ignore[attr-defined]

    busy = asyncio.create_task(checker.check("acme", [("a.py", COSTLY)], {}))
    await asyncio.sleep(0)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await checker.check("acme", [("a.py", COSTLY)], {})
    assert held() == 0
    await busy


def test_a_turn_ends_before_all_files_of_a_project_are_read() -> None:
    content = base64.b64encode(b"a = 1\n" * 20_000).decode()
    body = orjson.dumps({"files": [[f"{number}.py", content] for number in range(1_000)]})
    began = time.process_time()
    read = sum(1 for _ in files_jobs.answers(body))
    assert 0 < read < 1_000
    assert time.process_time() - began < 5
