"""What the sessions of the tests leave for the one that judges."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.harness.cluster.audit_log import Request, Right
from tests.harness.cluster.service_accounts import account_of, deployed_account_of
from tests.harness.session import reports

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def request(user: str, *, pod: str = "", name: str = "one") -> Request:
    right = Right("tieline.dev", "systems", "get")
    return Request(
        at=NOW, user=user, pod=pod, right=right, namespace="acme", name=name, allowed=True, created=False
    )


def test_a_report_has_each_kind_of_request_once_by_the_account_of_the_deployed_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    monkeypatch.setenv(reports.WRITTEN, str(path))
    monkeypatch.setenv(reports.READ, str(path))
    found = [request(account_of("api"), name=name) for name in ("one", "two", "tieline-three")]
    found += [request("somebody"), request("somebody", pod="a-pod")]
    reports.write(["tests/unit/test_one.py"], failed=False, found=found, since=NOW)
    reports.end(path)
    report = reports.read()
    assert report is not None
    assert (report.modules, report.failed) == (("tests/unit/test_one.py",), False)
    assert {(one.user, one.pod) for one in report.requests} == {
        (deployed_account_of("api"), ""),
        ("somebody", "a-pod"),
    }
    assert sorted(one.name for one in report.requests) == ["", "", "tieline-three"]
    assert {str(one.right) for one in report.requests} == {"systems.tieline.dev get"}


def test_a_session_that_ended_without_a_report_counts_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    monkeypatch.setenv(reports.READ, str(path))
    reports.end(path)
    assert reports.read() == reports.Report(failed=True)


def test_reports_of_several_sessions_count_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / f"{name}.json" for name in ("one", "two")]
    monkeypatch.setenv(reports.READ, os.pathsep.join(map(str, paths)))
    for path, failed in zip(paths, (True, False), strict=True):
        monkeypatch.setenv(reports.WRITTEN, str(path))
        found = [request("somebody", pod=path.stem)]
        reports.write([f"tests/unit/{path.stem}.py"], failed=failed, found=found, since=NOW)
        reports.end(path)
    report = reports.read()
    assert report is not None
    assert report.modules == ("tests/unit/one.py", "tests/unit/two.py")
    assert report.failed
    assert {one.pod for one in report.requests} == {"one", "two"}
