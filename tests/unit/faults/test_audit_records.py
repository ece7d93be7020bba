"""Tokens that are used twice, and operators that write without the Lease: told where nothing excuses them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.audit_records import AuditedWrite, audited, reused, stale
from tests.faults.fault_injection import Episode
from tests.faults.shop import TokenRequest

FIRST = TokenRequest(10.0, 1, 0, "operator-a", good=True)
AGAIN = TokenRequest(75.0, 1, 0, "operator-b", good=False)


def test_a_refresh_token_that_is_used_twice_is_reported() -> None:
    complaints, ended = reused([FIRST, AGAIN], [])
    assert len(complaints) == 1
    assert "used by operator-a and, 65.0 s later, by operator-b" in complaints[0]
    assert ended == set()


def test_it_is_excused_where_the_answer_died_with_its_process() -> None:
    assert reused([FIRST, AGAIN], [Episode("kill", "operator-a", 10.1, 12)]) == ([], {1})


def test_nobody_else_is_an_excuse_nor_is_a_later_end() -> None:
    for episode in (
        Episode("kill", "operator-b", 10.1, 12),
        Episode("kill", "operator-a", 30, 32),
        Episode("cut", "operator-a", 10.1, 12),
    ):
        assert reused([FIRST, AGAIN], [episode])[0], episode


def test_storing_takes_longer_while_kubernetes_is_away() -> None:
    away = Episode("kill", "etcd", 9, 25)
    assert reused([FIRST, AGAIN], [away])[0]
    assert reused([FIRST, AGAIN], [away, Episode("pause", "operator-a", 20, 40)]) == ([], {1})


def lease(at: float, operator: str) -> AuditedWrite:
    return AuditedWrite(at, operator, "leases", "tieline-operator", "update")


def wrote(at: float, operator: str) -> AuditedWrite:
    return AuditedWrite(at, operator, "projects", "orders", "patch")


def test_a_write_after_another_has_taken_the_lease_is_reported() -> None:
    writes = [
        lease(1, "operator-a"),
        wrote(2, "operator-a"),
        lease(20, "operator-b"),
        wrote(25, "operator-a"),
    ]
    (told,) = stale(writes, [])
    assert "operator-a wrote (patch projects orders) 5.00 s after operator-b" in told
    assert stale(writes[:3], []) == []


def test_tokens_are_stored_by_whoever_has_claimed_them() -> None:
    def secret(name: str) -> AuditedWrite:
        return AuditedWrite(25, "operator-a", "secrets", name, "update")

    writes = [lease(1, "operator-a"), lease(20, "operator-b")]
    assert stale([*writes, secret("shop-tokens-97aa45b571")], []) == []
    assert stale([*writes, secret("shop")], [])


def test_what_was_sent_before_may_arrive_once_it_is_let_through() -> None:
    writes = [lease(1, "operator-a"), lease(20, "operator-b"), wrote(20.5, "operator-a")]
    assert stale(writes, [("kube-apiserver", 20.0)]) == []
    assert stale(writes, [("operator-a", 19.0)]) == []
    assert stale(writes, [("operator-b", 20.0), ("etcd", 10.0)])


def test_the_audit_log_is_read_as_the_api_server_writes_it(tmp_path: Path) -> None:
    def event(user: str, verb: str, code: int) -> str:
        return json.dumps(
            {
                "verb": verb,
                "user": {"username": f"system:serviceaccount:faults-platform:{user}"},
                "objectRef": {"resource": "projects", "name": "orders"},
                "responseStatus": {"code": code},
                "requestReceivedTimestamp": "2026-11-21T12:00:00.500000Z",
            }
        )

    log = tmp_path / "audit.log"
    lines = [
        event("operator-a", "patch", 200),
        event("operator-a", "list", 200),
        event("operator-a", "patch", 409),
        event("api-a", "patch", 200),
        event("operator-b", "delete", 200)[:-20],
    ]
    log.write_text("\n".join(lines))
    (write,) = audited([log], since=0)
    assert (write.operator, write.verb, write.at % 1) == ("operator-a", "patch", 0.5)
    assert audited([log], since=write.at + 1) == []
