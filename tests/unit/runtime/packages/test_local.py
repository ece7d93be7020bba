"""Locking on one's own machine, and running and testing with the packages of the lock."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.identity.certificate_authority import Authority
from tests.unit.runtime.packages.local_index import (
    PASSWORD,
    LocalIndex,
    local_index,
    source_distribution,
    wheel,
)
from tieline.cli.check import check
from tieline.configuration.project_folder import find
from tieline.errors import CodeError
from tieline.testing.isolation import loaded
from tieline_packages.archive import PackagesError
from tieline_packages.local import installed_folder, write_lock
from tieline_protocol.package_lock import parse_lock

ROOT = Path(__file__).parents[4]
CODE = (
    "import greetings\n"
    "from tieline import Integration\n"
    "integration = Integration()\n"
    "@integration.webhook('hello')\n"
    "async def hello(ctx, request):\n"
    "    return {'says': greetings.VALUE}\n"
)


@pytest.fixture
def code(tmp_path: Path, index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that wants a package of the index."""
    _use(index, tmp_path, monkeypatch)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.py").write_text(CODE)
    (folder / "requirements.in").write_text("greetings\n")
    return folder


def _use(index: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIELINE_CACHE_FOLDER", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url.replace("://", f"://reader:{PASSWORD}@"))


def test_the_lock_has_what_the_packages_need_in_exact_versions(code: Path, index: LocalIndex) -> None:
    index.add(wheel("greetings", requires="words>=1"), wheel("words"), wheel("words", "1.1"))
    found, changed = write_lock(code)
    assert changed
    assert [(one.name, one.version) for one in found.packages] == [("greetings", "1.0"), ("words", "1.1")]
    text = (code / "requirements.txt").read_text()
    assert parse_lock(text.encode()) == found
    assert PASSWORD not in text
    assert index.url not in text


@pytest.mark.parametrize("variable", ["PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_an_authority_that_pip_trusts_is_trusted(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    (tmp_path / "bundle.pem").write_text(authority.ca)
    for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "bundle.pem"))
    (tmp_path / "requirements.in").write_text("greetings\n")
    with local_index(authority) as index:
        index.add(wheel("greetings"))
        _use(index, tmp_path, monkeypatch)
        found, _ = write_lock(tmp_path)
    assert [one.name for one in found.packages] == ["greetings"]


def test_versions_stay_until_they_are_to_be_new(code: Path, index: LocalIndex) -> None:
    index.add(wheel("greetings"))
    first, _ = write_lock(code)
    index.add(wheel("greetings", "2.0"))
    same, changed = write_lock(code)
    assert (same, changed) == (first, False)
    _, out_of_date = write_lock(code, upgrade=True, check=True)
    assert out_of_date
    assert "1.0" in (code / "requirements.txt").read_text()
    newer, changed = write_lock(code, upgraded=["greetings"])
    assert changed
    assert newer.packages[0].version == "2.0"


def test_packages_of_the_image_are_locked_in_its_versions(code: Path, index: LocalIndex) -> None:
    (code / "requirements.in").write_text("attrs\n")
    lines = (ROOT / "core/tieline_protocol/runtime_constraints.txt").read_text().split()
    (own,) = [line.partition("==")[2] for line in lines if line.startswith("attrs==")]
    index.add(wheel("attrs", own), wheel("attrs", "99.0"))
    found, _ = write_lock(code)
    assert [one.version for one in found.packages] == [own]


def test_the_constraints_are_what_the_image_has() -> None:
    pinned = [
        line.split()[0]
        for line in (ROOT / "requirements/runtime.txt").read_text().splitlines()
        if "==" in line
    ]
    assert (ROOT / "core/tieline_protocol/runtime_constraints.txt").read_text().split() == pinned


def test_what_has_no_wheel_cannot_be_locked(code: Path, index: LocalIndex) -> None:
    index.add(source_distribution("greetings"))
    with pytest.raises(PackagesError, match="greetings"):
        write_lock(code)
    assert not (code / "requirements.txt").exists()


def test_without_a_list_of_packages_there_is_nothing_to_lock(code: Path) -> None:
    (code / "requirements.in").unlink()
    with pytest.raises(PackagesError, match=r"there is no .*requirements\.in"):
        write_lock(code)


def test_tests_and_checks_use_the_packages_of_the_lock_and_need_the_index_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.py").write_text(CODE)
    with local_index() as index:
        _use(index, tmp_path, monkeypatch)
        index.add(wheel("greetings"))
        (folder / "requirements.txt").write_text(index.lock("greetings").text)
        first = installed_folder(folder)
    shutil.rmtree(tmp_path / "uv")
    assert installed_folder(folder) == first
    path = sys.path[:]
    with loaded(folder) as (module, tasks):
        assert module.greetings.VALUE == "1.0"
        assert list(tasks.webhooks) == ["hello"]
    assert sys.path == path
    report = check(find(folder))
    assert report.findings == ()
    assert report.packages == first


def test_an_import_that_the_lock_does_not_have_is_found(code: Path, index: LocalIndex) -> None:
    index.add(wheel("words"))
    (code / "requirements.txt").write_text(index.lock("words").text)
    (finding,) = check(find(code)).findings
    assert 'no module "greetings"' in finding.message
    assert "tieline lock" in finding.message


def test_packages_that_cannot_be_installed_are_told_with_the_file(code: Path, index: LocalIndex) -> None:
    index.add(wheel("greetings"))
    (code / "requirements.txt").write_text(index.lock("greetings").text)
    index.files.clear()
    (finding,) = check(find(code)).findings
    assert finding.filename is not None
    assert finding.filename.endswith("requirements.txt")
    assert "cannot be installed" in finding.message
    assert PASSWORD not in finding.message
    with pytest.raises(CodeError, match="cannot be installed"), loaded(code):
        pass


def test_a_run_on_this_machine_has_the_packages(code: Path, index: LocalIndex) -> None:
    index.add(wheel("greetings"))
    main = (
        CODE
        + "@integration.event('told')\nasync def told(ctx, event):\n    print('it says', greetings.VALUE)\n"
    )
    (code / "main.py").write_text(main)
    (code / "requirements.txt").write_text(index.lock("greetings").text)
    command = [
        sys.executable,
        "-c",
        "from tieline.cli.main import main; main()",
        "run",
        str(code),
        "--once",
        "told",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert any("it says 1.0" in line.get("message", "") for line in lines), ended.stdout
