"""What REST says of releases."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tieline_api.conversion.releases import EnvironmentReleases
from tieline_api.schemas.releases import Release

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
DEPLOYED = "2026-11-27T10:00:00Z"
SERVES = {"rollout": "complete", "servedFrom": "2026-11-27T10:00:30Z"}


def release(number: int, version: str, **fields: Any) -> dict[str, Any]:
    return {
        "number": number,
        "version": version,
        "digest": "0" * 64,
        "deployedAt": DEPLOYED,
        **SERVES,
        **fields,
    }


def shown(*items: dict[str, Any], suspended: bool = False) -> list[Release]:
    """The releases in REST, of which the first is the newest."""
    found = EnvironmentReleases(items=items, versions=lambda _: None, is_suspended=suspended, now=NOW)
    return [Release(**found.values(at)) for at in range(len(items))]


@pytest.mark.parametrize(
    ("fields", "suspended", "outcome"),
    [
        ({}, False, "serving"),
        ({"healthy": True}, False, "healthy"),
        ({"healthy": True}, True, "suspended"),
        ({"rollout": "progressing", "servedFrom": None}, False, "progressing"),
        ({"rollout": "failed", "servedFrom": None, "reason": "VersionRefused"}, False, "failed"),
        ({"healthy": True, "reason": "Crashed"}, False, "crashed"),
    ],
)
def test_the_newest_release_says_how_it_is(fields: dict[str, Any], suspended: bool, outcome: str) -> None:
    (only,) = shown(release(1, "a", **fields), suspended=suspended)
    assert only.outcome == outcome


def test_earlier_releases_say_how_they_ended() -> None:
    ended = {"servedUntil": "2026-11-27T11:00:30Z", "healthy": True}
    found = shown(
        release(5, "b"),
        release(4, "c", **ended),
        release(
            3, "d", rollout="failed", servedFrom=None, reason="Crashed", failure="KeyError: 'X', main.py:4"
        ),
        release(2, "b", **ended),
        release(1, "a", **ended),
    )
    assert [one.outcome for one in found] == ["serving", "rolled_back", "failed", "replaced", "replaced"]
    assert found[2].failure is not None
    assert found[2].failure.message == "KeyError: 'X', main.py:4"
    assert (found[1].served_seconds, found[2].served_seconds) == (3600, None)


def test_a_version_that_is_not_kept_has_its_objects_name() -> None:
    (only,) = shown(release(1, "order-sync-d0412d6da224"))
    assert (only.version.id, only.version.name) == (None, "order-sync-d0412d6da224")
