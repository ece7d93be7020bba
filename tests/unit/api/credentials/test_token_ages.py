"""A token that has just come is known by when it was seen to come, whatever date it bears."""

from __future__ import annotations

from typing import Any

from tieline_api.credentials.token_ages import YOUNG_SECONDS, TokenAges
from tieline_core.kubernetes import Change


def secret(token: str | None = None, *, uid: str = "one", **notes: str) -> dict[str, Any]:
    data = {"accessToken": token} if token else {}
    return {"metadata": {"uid": uid, "annotations": notes}, "data": data}


class Clock:
    now = 5000.0

    def __call__(self) -> float:
        return self.now


def test_a_token_is_young_for_half_a_minute_after_it_came() -> None:
    clock = Clock()
    ages = TokenAges(clock=clock)
    ages.changed(Change(old=secret(), new=secret("a")))
    assert ages.is_young(secret("a"))
    assert not ages.is_young(secret("a", uid="another"))
    clock.now += YOUNG_SECONDS - 0.1
    assert ages.is_young(secret("a"))
    clock.now += 0.1
    assert not ages.is_young(secret("a"))


def test_what_else_is_written_into_its_secret_does_not_make_a_token_young() -> None:
    clock = Clock()
    ages = TokenAges(clock=clock)
    ages.changed(Change(old=secret(), new=secret("a")))
    clock.now += YOUNG_SECONDS
    ages.changed(Change(old=secret("a"), new=secret("a", claimed="by somebody")))
    assert not ages.is_young(secret("a"))
    ages.changed(Change(old=secret("a"), new=secret("b")))
    assert ages.is_young(secret("b"))


def test_what_a_start_finds_is_not_young() -> None:
    ages = TokenAges()
    ages.changed(Change(old=None, new=secret("a")))
    assert not ages.is_young(secret("a"))


def test_only_what_is_young_is_remembered() -> None:
    clock = Clock()
    ages = TokenAges(clock=clock)
    for number in range(100):
        ages.changed(Change(old=secret(uid=str(number)), new=secret("a", uid=str(number))))
        clock.now += 1
    assert len(ages) == YOUNG_SECONDS - 1, "one is old by now"
    ages.changed(Change(old=secret("a", uid="99"), new=None))
    assert len(ages) == YOUNG_SECONDS - 2, "one has gone"
    ages.changed(Change(old=None, new=secret("a", uid="100")))
    clock.now += YOUNG_SECONDS
    ages.changed(Change(old=secret(uid="101"), new=secret("a", uid="101")))
    assert len(ages) == 1
