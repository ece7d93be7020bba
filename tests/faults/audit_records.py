"""What the provider and the API server wrote down: no refresh token twice, no writes without the Lease."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.faults.fault_injection import Episode
from tests.faults.ha_platform import LEASE, OPERATORS, PLATFORM
from tests.faults.shop import TokenRequest

STORING = 2.0
"""Seconds from a provider's answer until it is stored, where nothing is in the way."""
HELD_UP = frozenset({"kube-apiserver", "etcd", "all"})
IN_FLIGHT = 2.0
"""Seconds in which requests that were on their way arrive, once what held them up is over."""
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class AuditedWrite:
    """A write of an operator that was carried out."""

    at: float
    operator: str
    resource: str
    name: str
    verb: str


def reused(journal: Sequence[TokenRequest], episodes: Sequence[Episode]) -> tuple[list[str], set[int]]:
    """Refresh tokens that were used twice for no good reason, and the log-ins that ended for a good one.

    The one good reason (docs/decisions/0011-token-refresh.md): whoever had the answer was killed or stopped before
    it was stored.
    """
    complaints, ended = [], set[int]()
    first: dict[tuple[int, int], TokenRequest] = {}
    for request in journal:
        key = request.family, request.number
        before = first.setdefault(key, request)
        if request is before or request.family in ended:
            continue
        if _lost(before, request.at, episodes):
            ended.add(request.family)
            continue
        complaints.append(
            f"The refresh token {request.number} of log-in {request.family} was used by {before.sender} and, "
            f"{request.at - before.at:.1f} s later, by {request.sender}"
        )
    return complaints, ended


def _lost(before: TokenRequest, again: float, episodes: Sequence[Episode]) -> bool:
    stored = before.at + STORING
    for episode in sorted(episodes, key=lambda one: one.began):
        in_the_way = episode.target in HELD_UP or before.sender in episode.target
        if in_the_way and episode.began < stored and episode.ended > before.at:
            stored = max(stored, episode.ended + STORING)
    return any(
        episode.target == before.sender
        and episode.kind in ("kill", "pause", "skew", "exit")
        and before.at - 0.5 <= episode.began <= min(stored, again)
        for episode in episodes
    )


def audited(logs: Iterable[Path], *, since: float) -> list[AuditedWrite]:
    """The operators' writes since a time (seconds of the epoch), in their order."""
    found = []
    accounts = {f"system:serviceaccount:{PLATFORM}:{name}": name for name in OPERATORS}
    for log in logs:
        with log.open() as lines:
            for line in lines:
                if not any(name in line for name in OPERATORS):
                    continue
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # the API server was killed as it wrote
                operator = accounts.get(event["user"]["username"])
                status = event.get("responseStatus", {}).get("code", 500)
                if operator and event["verb"] in _WRITES and status < 300:
                    place = event["objectRef"]
                    at = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
                    write = AuditedWrite(
                        at, operator, place["resource"], place.get("name", ""), event["verb"]
                    )
                    if at >= since:
                        found.append(write)
    return sorted(found, key=lambda write: write.at)


def stale(writes: Sequence[AuditedWrite], held_up: Sequence[tuple[str, float]]) -> list[str]:
    """Writes of an operator after another one has taken the Lease.

    Tokens are another matter: whoever has claimed them stores them, API or operator, whether it leads or not
    (docs/decisions/0011-token-refresh.md); ``reused`` is about these.

    ``held_up``: for a replica (or a part of the cluster) the times at which its requests were let through again;
    what had been sent before may arrive then.
    """
    complaints = []
    holder, since = "", 0.0
    for write in writes:
        if write.resource == "leases" and write.name == LEASE:
            if write.operator != holder:
                holder, since = write.operator, write.at
            continue
        if write.operator == holder or not holder or _is_claimed(write):
            continue
        if any(
            whom in (*HELD_UP, write.operator) and 0 <= write.at - until <= IN_FLIGHT
            for whom, until in held_up
        ):
            continue
        complaints.append(
            f"{write.operator} wrote ({write.verb} {write.resource} {write.name}) {write.at - since:.2f} s after "
            f"{holder} had taken the Lease"
        )
    return complaints


def _is_claimed(write: AuditedWrite) -> bool:
    return write.resource == "secrets" and "-tokens-" in write.name
