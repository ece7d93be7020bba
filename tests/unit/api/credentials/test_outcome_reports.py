"""What requests through a connection have shown is written seldom, and about the credentials of now."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.credentials.outcome_reports import OutcomeReports, RequestOutcome, Verdict
from tieline_api.use_cases.connection_checks import judge_check
from tieline_core.credentials.connection_state import (
    ConnectionState,
    CredentialFacts,
    last_success,
    state_of,
)
from tieline_core.credentials.refusals import fingerprint, refusals_of
from tieline_core.kubernetes import Kube
from tieline_core.resources.systems import ConnectionCheck

GIVEN = [CredentialFacts()]
WORKS, REFUSED, UNCHECKED = ConnectionState.WORKS, ConnectionState.REFUSED, ConnectionState.NOT_CHECKED


@dataclass
class There:
    """One connection, at a time that the test turns."""

    connection: dict[str, Any] = field(
        default_factory=lambda: {
            "metadata": {"name": "c", "namespace": "acme", "uid": "u"},
            "spec": {"credentials": [{"id": "main", "secretRef": {"name": "old"}}]},
        }
    )
    time: datetime = datetime(2026, 11, 26, 10, tzinfo=UTC)
    writes: int = 0

    def __post_init__(self) -> None:
        self.reports = OutcomeReports(cast(Kube, self), cast(ClusterCache, self), now=lambda: self.time)
        self.connections = self

    def observe(self, _: Any) -> None:
        pass

    def get(self, *_: str) -> dict[str, Any]:
        return self.connection

    async def apply(self, _: Any, manifest: dict[str, Any], **__: Any) -> Any:
        self.writes += 1
        self.connection = {**self.connection, "metadata": manifest["metadata"]}
        self.object = self.connection
        return self

    async def after(self, verdict: Verdict, status: int = 0, *, minutes: float = 1, **more: Any) -> int:
        """How often something is written after so many minutes and an answer."""
        self.time += timedelta(minutes=minutes)
        before, at_once = self.writes, more.pop("at_once", False)
        outcome = RequestOutcome(status=status or 200, verdict=verdict, **more)
        await self.reports.answered(self.connection, outcome, at_once=at_once)
        return self.writes - before

    @property
    def state(self) -> ConnectionState:
        return state_of(self.connection, GIVEN)

    def rotate(self) -> None:
        self.connection["spec"] = {"credentials": [{"id": "main", "secretRef": {"name": "new"}}]}


@pytest.fixture
def there() -> There:
    return There()


async def test_it_works_once_a_request_has_succeeded(there: There) -> None:
    assert there.state is UNCHECKED
    assert await there.after(Verdict.ACCEPTED, 404) == 0
    assert there.state is UNCHECKED
    assert await there.after(Verdict.SUCCEEDED) == 1
    assert there.state is WORKS
    assert last_success(there.connection) == there.time


async def test_successes_are_written_once_in_ten_minutes(there: There) -> None:
    assert sum([await there.after(Verdict.SUCCEEDED) for _ in range(60)]) == 6


async def test_a_refusal_is_shown_with_what_the_system_said(there: There) -> None:
    await there.after(Verdict.SUCCEEDED)
    assert await there.after(Verdict.REFUSED, 401, said="key\nrevoked") == 1
    assert there.state is REFUSED
    known = refusals_of(there.connection)
    assert known
    assert (known.status, known.said) == (401, "key revoked")
    assert last_success(there.connection), "the last success stays known"
    await there.after(Verdict.SUCCEEDED)
    assert there.state is WORKS


async def test_new_credentials_are_not_checked(there: There) -> None:
    await there.after(Verdict.SUCCEEDED)
    there.rotate()
    assert there.state is UNCHECKED
    await there.after(Verdict.REFUSED, 401)
    assert there.state is REFUSED
    there.connection["spec"] = {"credentials": []}
    assert there.state is UNCHECKED


async def test_an_answer_to_replaced_credentials_says_nothing(there: There) -> None:
    before = fingerprint(there.connection)
    there.rotate()
    assert await there.after(Verdict.SUCCEEDED, of=before) == 0
    assert await there.after(Verdict.REFUSED, 401, of=before) == 0
    assert there.state is UNCHECKED


async def test_a_test_shows_at_once(there: There) -> None:
    await there.after(Verdict.SUCCEEDED, at_once=True)
    await there.after(Verdict.REFUSED, 401, minutes=0, at_once=True)
    assert there.state is REFUSED
    await there.after(Verdict.SUCCEEDED, minutes=0, at_once=True)
    assert there.state is WORKS


@pytest.mark.parametrize(
    ("expect", "status", "body", "verdict"),
    [
        ({}, 204, b"", Verdict.SUCCEEDED),
        ({}, 302, b"", Verdict.REFUSED),
        ({}, 403, b"", Verdict.REFUSED),
        ({}, 503, b"", None),
        ({}, 429, b"", None),
        ({"statuses": [404]}, 404, b"", Verdict.SUCCEEDED),
        ({"contains": '"ok":true'}, 200, b'{"ok":true}', Verdict.SUCCEEDED),
        ({"contains": '"ok":true'}, 200, b'{"ok":false,"error":"invalid_auth"}', Verdict.REFUSED),
    ],
)
def test_a_check_knows_a_good_answer(
    expect: dict[str, Any], status: int, body: bytes, verdict: Verdict | None
) -> None:
    check = ConnectionCheck.model_validate({"path": "/me", "expect": expect})
    judged = judge_check(check, status, body)
    assert judged.verdict is verdict
    assert judged.ok is (verdict is Verdict.SUCCEEDED)


@pytest.mark.parametrize(
    "numbers", ['"status":401,"count":1e300', '"status":"9223372036854775808","count":1']
)
def test_numbers_that_no_answer_can_hold_are_no_refusals(numbers: str) -> None:
    times = '"since":"2026-11-26T10:00:00Z","last":"2026-11-26T10:00:00Z"'
    written = {"annotations": {"tieline.dev/refused-requests": f"{{{numbers},{times}}}"}}
    assert refusals_of({"metadata": written, "spec": {}}) is None


async def test_an_answer_to_old_credentials_leaves_what_is_known_of_the_new(there: There) -> None:
    begun = {**there.connection}
    there.rotate()
    await there.after(Verdict.SUCCEEDED)
    outcome = RequestOutcome(status=401, verdict=Verdict.REFUSED)
    await there.reports.answered(begun, outcome, at_once=True)
    assert there.state is WORKS
