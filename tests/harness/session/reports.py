"""What sessions leave for the one that judges rights: which modules ran, and what was asked of their API servers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.harness.cluster.audit_log import Request, Right
from tests.harness.cluster.service_accounts import PARTS, account_of, deployed_account_of

WRITTEN, READ = "TIELINE_TEST_REPORT_WRITTEN", "TIELINE_TEST_REPORT_READ"
"""Environment variables: where a session writes its report, and the reports that the judging one reads."""
_WAIT_SECONDS = 2700.0


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a session did. Where one had failures, or ended early, less was used than usual."""

    modules: tuple[str, ...] = ()
    """Paths below the repository's root."""
    failed: bool = True
    requests: tuple[Request, ...] = ()
    """Those of operator, API and pods, each kind of request once, by the account that has the right when deployed."""


def write(modules: Iterable[str], *, failed: bool, found: Iterable[Request], since: datetime) -> None:
    """Writes the session's report, where somebody reads it."""
    path = os.environ.get(WRITTEN)
    if not path:
        return
    users = {account_of(part): deployed_account_of(part) for part in PARTS}
    kinds = {
        # Roles grant some rights to the platform's own objects alone, which are few.
        replace(
            one,
            at=since,
            user=users.get(one.user, one.user),
            name=one.name if one.name.startswith("tieline-") else "",
        )
        for one in found
        if one.pod or one.user in users
    }
    report = Report(modules=tuple(modules), failed=failed, requests=tuple(kinds))
    Path(path).write_text(json.dumps(asdict(report), default=str))


def end(path: Path) -> None:
    """Notes that the session that writes has ended, whatever it has written."""
    _ended(path).touch()


def read() -> Report | None:
    """The reports of the other sessions as one, once all have ended; None where there are none."""
    named = os.environ.get(READ)
    if not named:
        return None
    until = time.monotonic() + _WAIT_SECONDS
    found = [_read(Path(path), until) for path in named.split(os.pathsep)]
    return Report(
        modules=tuple(module for one in found for module in one.modules),
        failed=any(one.failed for one in found),
        requests=tuple(request for one in found for request in one.requests),
    )


def _read(path: Path, until: float) -> Report:
    while not _ended(path).exists():
        assert time.monotonic() < until, "another session goes on for too long"
        time.sleep(1)
    return _parsed(json.loads(path.read_text())) if path.exists() else Report()


def _parsed(content: dict[str, Any]) -> Report:
    requests = [
        Request(**{**one, "at": datetime.fromisoformat(one["at"]), "right": Right(*one["right"])})
        for one in content["requests"]
    ]
    return Report(modules=tuple(content["modules"]), failed=content["failed"], requests=tuple(requests))


def _ended(path: Path) -> Path:
    return path.with_suffix(".ended")
