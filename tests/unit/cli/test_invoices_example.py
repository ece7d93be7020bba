"""The invoices example: what the command wrote follows from the description beside it, and its code type-checks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from tests.harness.inputs.type_checkers import mypy_cache
from tests.harness.session.waiting import eventually_async
from tests.unit.cli.commands import Running
from tests.unit.cli.connector_files import file_of_bytes
from tieline.cli.connector_code.files import written
from tieline.cli.connector_code.module import module_of

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "invoices"
CONNECTORS = EXAMPLE / "integration" / "connectors"


def test_the_files_of_the_connector_are_up_to_date() -> None:
    there = json.loads((CONNECTORS / "billing.json").read_text())
    fresh = file_of_bytes((EXAMPLE / "billing" / "openapi.yaml").read_bytes(), "billing")
    fresh["connector"] = there["connector"]
    assert (CONNECTORS / "billing.json").read_text() == written(fresh)
    assert (CONNECTORS / "billing.py").read_text() == module_of(fresh, "billing")


def test_the_code_type_checks() -> None:
    options = ["--strict", "--follow-imports=silent", "--cache-dir", mypy_cache("silent")]
    command = [sys.executable, "-m", "mypy", *options, EXAMPLE / "integration" / "main.py"]
    env = {"MYPYPATH": f"{ROOT / 'runtime'}:{ROOT / 'core'}", "PATH": ""}
    ended = subprocess.run(
        command,
        cwd=EXAMPLE / "integration",
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


async def test_it_runs_as_its_page_says_against_the_billing_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real system: what the description promises is what the system does."""
    monkeypatch.setenv("API_KEY", "only-for-local-runs")
    code = compile((EXAMPLE / "billing" / "billing.py").read_text(), "billing.py", "exec")
    billing: dict[str, object] = {"__name__": "billing"}
    exec(code, billing)  # the example's own program, in this process
    server = TestServer(billing["application"]())  # type: ignore[operator]
    await server.start_server()
    for name in ("main.py", "connectors/billing.json", "connectors/billing.py"):
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        target.write_text((EXAMPLE / "integration" / name).read_text())
    connections = (EXAMPLE / "connections.yaml").read_text()
    url = str(server.make_url("")).rstrip("/")
    (tmp_path / "connections.yaml").write_text(connections.replace("http://localhost:9000", url))
    order = {"number": "S-1", "customer": "ann", "lines": [{"sku": "mug", "quantity": 2, "price": "9.95"}]}
    try:
        env = {"TIELINE_ANSWER_CHECKS": "raise"}
        async with Running(tmp_path, env=env) as running, ClientSession() as client:
            at = await running.url()
            for _ in range(2):
                assert (await client.post(f"{at}/orders", json=order)).status == 202
            owed = await _owed(client, f"{at}/open", wanted=3980)
            assert owed == {"cents": 3980, "customers": {"ann": 3980}}
            paid = await client.post(f"{at}/paid", json={"invoice": "1"})
            assert await paid.json() == {"state": "paid"}
            assert await _owed(client, f"{at}/open", wanted=1990) == {
                "cents": 1990,
                "customers": {"ann": 1990},
            }
    finally:
        await server.close()


async def _owed(client: ClientSession, url: str, *, wanted: int) -> dict[str, object]:
    """What is open once it is ``wanted``: events run in the background."""

    async def probe() -> dict[str, object] | None:
        found: dict[str, object] = await (await client.get(url)).json()
        return found if found["cents"] == wanted else None

    return await eventually_async(f"{wanted} cents", probe)
