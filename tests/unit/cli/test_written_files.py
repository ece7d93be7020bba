"""Files that the code writes into its own folder deploy nothing; packages of this machine can be used."""

import asyncio
import warnings
from pathlib import Path

import aiohttp
import pytest

from tests.unit.cli.commands import Running, project, tieline
from tieline.cli.check import installed
from tieline.cli.file_watcher import SelfModifiedFiles
from tieline.testing import Project

WRITES = """
import os, sqlite3, time
from pathlib import Path
from tieline import Context, Integration

HERE = Path(__file__).parent
(HERE / "loaded.txt").write_text(str(time.time_ns()))
integration = Integration()


@integration.schedule("nightly", "0 3 * * *")
async def nightly(ctx: Context) -> None:
    await ctx.state.set("cursor", 1)
    (HERE / "nightly.csv").write_text("row")


@integration.webhook("write", methods=["GET"])
async def write(ctx: Context) -> int:
    await ctx.state.set("cursor", 1)
    with open(HERE / "written.csv", "a") as file:
        file.write(str(time.time_ns()))
    (HERE / "half.json").write_text(str(time.time_ns()))
    os.replace(HERE / "half.json", HERE / "whole.json")
    with sqlite3.connect(HERE / "rows.db") as rows:
        rows.execute("create table if not exists t (n)")
        rows.execute("insert into t values (1)")
    return 1
"""


async def test_what_the_code_writes_deploys_nothing_and_is_told_once(tmp_path: Path) -> None:
    project(tmp_path, {"main.py": WRITES, "written.csv": "old", "notes.txt": "mine"})
    async with Running(tmp_path) as running, aiohttp.ClientSession() as client:
        url = (await running.said("/write")).split()[-1]
        for _ in range(3):
            async with client.get(url) as response:
                assert response.status == 200
            await asyncio.sleep(0.7)
        assert not [line for line in running.lines if "(version 2)" in line]
        told = [line for line in running.lines if "is written by the code itself" in line]
        assert {line.split()[0] for line in told} >= {"loaded.txt", "written.csv", "whole.json", "rows.db"}
        assert len(told) == len(set(told))
        assert all(line.endswith("write to /tmp, or keep small values in ctx.state") for line in told)
        assert not [line for line in running.lines if "state.json" in line]
        (tmp_path / "notes.txt").write_text("changed by the author")
        await running.said("(version 2)")
        (tmp_path / "main.py").write_text(WRITES + "\n")
        await running.said("(version 3)")


def test_a_single_run_and_a_test_warn_of_files_that_a_pod_could_not_write(tmp_path: Path) -> None:
    project(tmp_path, {"main.py": WRITES})
    ended = tieline("run", str(tmp_path), "--once", "nightly")
    warned = [line for line in ended.stdout.splitlines() if "is written by the code itself" in line]
    assert sum("nightly.csv" in line for line in warned) == 1, ended.stdout
    assert not [line for line in warned if "state.json" in line]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Project(tmp_path) as run:
            run.run_schedule("nightly")
            run.run_schedule("nightly")
            (tmp_path / "by-the-test.csv").write_text("row")
    names = [str(item.message).split()[0] for item in caught if "by the code itself" in str(item.message)]
    assert names == ["loaded.txt", "nightly.csv"]


def test_what_changes_after_every_deploy_is_found_and_code_never() -> None:
    restless = SelfModifiedFiles()
    found = [restless.found({"/p/out.log"}, seconds=0.5) for _ in range(3)]
    assert found == [set(), set(), {"/p/out.log"}]
    patient = SelfModifiedFiles()
    assert not any(patient.found({"/p/out.log"}, seconds=seconds) for seconds in (0.5, 0.5, 60, 0.5, 0.5))
    assert not any(restless.found({"/p/main.py"}, seconds=0.5) for _ in range(5))


THIRD_PARTY = """
import elsewhere_from
from tieline import Context, Integration

integration = Integration()


@integration.webhook("name", methods=["GET"])
async def name(ctx: Context) -> str:
    return elsewhere_from.NAME


@integration.schedule("nightly", "0 3 * * *")
async def nightly(ctx: Context) -> None:
    ctx.log.info("It is " + elsewhere_from.NAME)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a package is installed that the runtime image does not have."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "elsewhere_from.py").write_text("NAME = 'installed'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    return tmp_path / "packages"


async def test_installed_packages_are_used_here_with_a_warning(tmp_path: Path, packages: Path) -> None:
    folder = project(tmp_path / "project", {"main.py": THIRD_PARTY})
    async with Running(folder) as running, aiohttp.ClientSession() as client:
        await running.said(
            'warning: this works here, and fails in the pod: there is no module "elsewhere_from"'
        )
        url = (await running.said("/name")).split()[-1]
        async with client.get(url) as response:
            assert await response.text() == "installed"
    once = tieline("run", str(folder), "--once", "nightly")
    assert (once.returncode, "It is installed" in once.stdout) == (0, True), once.stderr
    quiet = tieline("run", str(folder), "--once", "nightly", "--image-has", "elsewhere_from")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert tieline("check", str(folder)).returncode == 1, "a deploy's pod has no such module"


@pytest.mark.parametrize("where", ["nowhere", "in the current folder"])
def test_packages_that_are_not_installed_are_refused_with_what_to_do(tmp_path: Path, where: str) -> None:
    folder = project(tmp_path / "project", {"main.py": THIRD_PARTY})
    if where == "in the current folder":
        (tmp_path / "elsewhere_from.py").write_text("NAME = 'not deployed'\n")
    once = tieline("run", str(folder), "--once", "nightly", cwd=tmp_path)
    assert once.returncode == 1
    assert 'main.py:2: error: there is no module "elsewhere_from"' in once.stderr
    assert "pip install it first" in once.stderr


def test_what_is_installed_is_known_without_importing_it() -> None:
    assert installed("aiohttp")
    assert installed("json")
    assert not installed("elsewhere_from")
