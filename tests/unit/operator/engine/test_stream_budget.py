"""The sizes of the engine's streams: they fit into the volume and into quotas, and what is stored is kept."""

from __future__ import annotations

from tieline_core.engine.accounts import StreamFacts
from tieline_core.engine.streams import DIVISORS, StreamLimits
from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.engine.stream_budget import Demand, budget, environment_sizes, smallest_index

MIB = 1 << 20
SIZES = environment_sizes(StreamLimits())
"""768, 384, 192, 96 and 64 MiB."""


def demand(name: str, *, namespace: str = "acme", reserved: int = 0, **fields: int) -> Demand:
    return Demand(key=StreamKey(namespace, name), sizes=SIZES, reserved=reserved, **fields)


def many(count: int, **fields: int) -> list[Demand]:
    return [demand(f"e{number:03}", **fields) for number in range(count)]


def stream(*, stored: int, limit: int) -> StreamFacts:
    return StreamFacts(
        account="A",
        name="ev",
        owner=None,
        settings="",
        messages=1,
        last_sequence=1,
        consumers=0,
        oldest=None,
        stored=stored,
        limit=limit,
    )


def test_streams_have_their_full_size_while_they_fit() -> None:
    found = budget(many(10), volume=10 << 30)
    assert set(found.indices.values()) == {0}
    assert found.reserved == 10 * 768 * MIB


def test_without_a_volume_or_a_quota_nothing_is_made_smaller() -> None:
    assert set(budget(many(1000)).indices.values()) == {0}


def test_all_streams_become_smaller_so_that_one_more_environment_fits() -> None:
    found = budget(many(20), volume=10 << 30)
    assert {DIVISORS[index] for index in found.indices.values()} == {2}
    assert found.reserved <= 9 << 30


def test_new_streams_are_refused_where_the_smallest_do_not_fit() -> None:
    there = many(140, reserved=64 * MIB)
    found = budget([*there, demand("new"), demand("next")], volume=10 << 30)
    assert not found.refusals.keys() & {one.key for one in there}
    assert found.reserved <= 9 << 30
    full = budget([*many(144, reserved=64 * MIB), demand("new")], volume=10 << 30)
    assert list(full.refusals) == [StreamKey("acme", "new")]
    assert "has no room" in full.refusals[StreamKey("acme", "new")].message


def test_streams_of_others_count_too() -> None:
    assert set(budget(many(10), volume=10 << 30, others={"": 4 << 30}).indices.values()) == {1}


def test_a_quota_makes_the_streams_of_its_organisation_smaller_and_no_others() -> None:
    mine = many(2, quota=1 << 30)
    found = budget([*mine, demand("other", namespace="globex")], volume=10 << 30)
    assert {found.divisor(one.key) for one in mine} == {2}
    assert found.divisor(StreamKey("globex", "other")) == 1


def test_a_small_quota_of_one_organisation_holds_back_no_other() -> None:
    # Those of others take 88 % of what fits.
    mine = [demand("mine", namespace="globex", reserved=SIZES[4], quota=64 * MIB)]
    others = many(10, reserved=SIZES[0])
    found = budget([*mine, *others], volume=10 << 30)
    assert {found.divisor(one.key) for one in others} == {1}
    assert found.divisor(mine[0].key) == 16


def test_a_quota_refuses_one_more_environment_and_says_who_can_raise_it() -> None:
    there = many(2, reserved=64 * MIB, quota=128 * MIB)
    found = budget([*there, demand("new", quota=128 * MIB)])
    (refusal,) = found.refusals.values()
    assert refusal.reason == "QuotaExceeded"
    assert "may take 128Mi in the event engine (quota engineStorage)" in refusal.message
    assert "an administrator of the cluster can raise it" in refusal.message


def test_a_stream_that_is_full_of_events_keeps_its_size() -> None:
    full = demand("full", reserved=SIZES[0], smallest=smallest_index([stream(stored=90, limit=100)]))
    found = budget([full, *many(20)], volume=10 << 30)
    assert found.divisor(full.key) == 1
    assert {found.divisor(one.key) for one in many(20)} == {2}


def test_streams_grow_again_only_with_room_to_spare() -> None:
    halved = many(11, reserved=SIZES[1])
    assert {budget(halved, volume=10 << 30).divisor(one.key) for one in halved} == {2}
    assert {budget(halved[:9], volume=10 << 30).divisor(one.key) for one in halved[:9]} == {1}


def test_a_quota_below_what_exists_takes_nothing_away() -> None:
    there = many(3, reserved=64 * MIB, quota=64 * MIB)
    assert not budget(there).refusals


def test_divided_limits_have_room_for_the_largest_message() -> None:
    limits = StreamLimits(issues_bytes=8 * MIB).divided(16)
    assert (limits.queue_bytes, limits.runs_bytes, limits.issues_bytes) == (16 * MIB, 16 * MIB, 8 * MIB)
