"""Releases of real pods, as somebody at a terminal reads them: what crashed, who deployed it, and what changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_rollouts import CRASHING, MAIN, ByCommand
from tests.harness.cluster.deployed_platform import Rest, Tenant, answering, http
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

FAILING = (
    "from tieline import Integration\n\nintegration = Integration()\n\n\n"
    '@integration.webhook("fails", methods=["GET"])\n'
    "def fails() -> None:\n"
    '    raise ValueError("no")\n'
)


def listed(here: ByCommand) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(here.command("releases", "list", "--output", "json").stdout)
    return found


def test_releases_say_what_crashed_what_changed_and_what_failed_since(
    tenant: Tenant, rest: Rest, tmp_path: Path
) -> None:
    here = ByCommand(rest, "releases")
    here.folder = tmp_path

    def deploy(code: str, message: str, *, code_of_end: int = 0) -> None:
        (tmp_path / MAIN).write_text(code)
        options = ("--message", message, "--revision", f"r-{message}")
        here.command("deploy", *options, "--version-name", message, code=code_of_end)

    deploy(answering("one"), "first")
    eventually("it is healthy", lambda: listed(here)[0]["outcome"] == "healthy")
    deploy(CRASHING, "second", code_of_end=1)
    failed, served = listed(here)
    assert (failed["outcome"], served["wasHealthy"]) == ("failed", True)
    assert "main.py:4: KeyError: 'DATABASE_URL'" in failed["failure"]["message"]
    assert (failed["message"], failed["revision"]) == ("second", "r-second")
    assert failed["by"]
    assert "servedUntil" not in served, "it serves on"
    shown = here.command("releases", "show", "2", "--diff").stdout
    assert '+    os.environ["DATABASE_URL"]' in shown
    assert "first" in shown, "what a rollback leads to"

    here.command("rollback", "--yes", "--message", "back")
    newest, *_ = listed(here)
    assert (newest["number"], newest["version"]["name"], newest["message"]) == (3, "first", "back")

    deploy(FAILING, "third")
    url = here.environment()["publicUrl"]
    # For a moment after a rollout, requests reach pods of the version before.
    eventually("the new version fails", lambda: http("GET", f"{url}/fails", timeout=10).status == 500)
    eventually("the failed run is counted", lambda: listed(here)[0].get("failedRuns"))
    assert [one["outcome"] for one in listed(here)[1:3]] == ["replaced", "failed"]

    name = here.object
    tenant.kubectl(
        *("patch", "project", name, "--type=merge"),
        '-p={"spec": {"environments": [{"name": "production", "version": "nowhere"}]}}',
        namespace=tenant.namespace,
    )
    refused = eventually("the refusal", lambda: (one := listed(here)[0])["outcome"] == "failed" and one)
    assert refused["failure"]["reason"] == "VersionNotFound"
    assert "by" not in refused
