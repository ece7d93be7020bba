"""Tokens and permissions are asked for once, and not for long."""

import asyncio
from typing import Any

import pytest

from tieline_api.auth.access import Access
from tieline_api.auth.authentication import AuthenticatorChain, Caller, bearer_token
from tieline_api.auth.permissions import Permission
from tieline_api.auth.token_review import TokenReviewer
from tieline_api.auth.ttl_cache import TtlCache
from tieline_api.cluster.organisations import Organisation
from tieline_api.errors import ApiError
from tieline_core.kubernetes import Resource, Unavailable

ORGANISATION = Organisation(id="01JD3Y000000000000000000RG", namespace="acme")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Reviews:
    """Answers reviews as the API server would; counts them."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.good = {"good"}
        self.allowed = {("list", "projects")}
        self.away = False

    async def create(self, resource: Resource, review: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("down")
        self.asked.append(review)
        spec = review["spec"]
        if resource.kind == "TokenReview":
            if spec["token"] not in self.good:
                return {"status": {"authenticated": False}}
            user = {"username": "ann", "groups": ["staff"], "extra": {"scopes": ["a"]}}
            return {"status": {"authenticated": True, "user": user, "audiences": spec.get("audiences", [])}}
        attributes = spec["resourceAttributes"]
        return {"status": {"allowed": (attributes["verb"], attributes["resource"]) in self.allowed}}


def _reviewer(reviews: Reviews, clock: Clock, **options: Any) -> TokenReviewer:
    return TokenReviewer(reviews, clock=clock, **options)  # type: ignore[arg-type]


async def test_an_accepted_token_is_not_asked_again_for_a_minute() -> None:
    reviews, clock = Reviews(), Clock()
    reviewer = _reviewer(reviews, clock)
    assert await reviewer.authenticate("good") == Caller(
        username="ann", groups=("staff",), extra={"scopes": ("a",)}
    )
    clock.now = 59
    await reviewer.authenticate("good")
    assert len(reviews.asked) == 1
    clock.now = 61
    await reviewer.authenticate("good")
    assert len(reviews.asked) == 2


async def test_a_refused_token_is_asked_again_after_five_seconds() -> None:
    reviews, clock = Reviews(), Clock()
    reviewer = _reviewer(reviews, clock)
    assert await reviewer.authenticate("new") is None
    reviews.good.add("new")
    clock.now = 4
    assert await reviewer.authenticate("new") is None
    clock.now = 6
    assert await reviewer.authenticate("new") is not None


async def test_a_thousand_calls_with_one_token_ask_once() -> None:
    reviews = Reviews()
    reviewer = _reviewer(reviews, Clock())
    await asyncio.gather(*(reviewer.authenticate("good") for _ in range(1000)))
    assert len(reviews.asked) == 1


async def test_when_kubernetes_is_away_nothing_is_remembered() -> None:
    reviews = Reviews()
    reviewer = _reviewer(reviews, Clock())
    reviews.away = True
    results = await asyncio.gather(*(reviewer.authenticate("good") for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, Unavailable) for result in results)
    reviews.away = False
    assert await reviewer.authenticate("good") is not None


async def test_one_who_stops_waiting_does_not_fail_the_others() -> None:
    cache: TtlCache[str, int] = TtlCache(size=2)
    gate = asyncio.Event()

    async def load() -> tuple[int, float]:
        await gate.wait()
        return 7, 10.0

    first = asyncio.create_task(cache.get("a", load))
    second = asyncio.create_task(cache.get("a", load))
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert await second == 7


async def test_the_cache_is_bounded() -> None:
    cache: TtlCache[int, int] = TtlCache(size=10)
    for number in range(1000):

        async def load(value: int = number) -> tuple[int, float]:
            return value, 10.0

        await cache.get(number, load)
    assert len(cache) == 10


async def test_a_token_for_another_audience_is_refused() -> None:
    class Others(Reviews):
        async def create(self, resource: Resource, review: dict[str, Any]) -> dict[str, Any]:
            answer = await super().create(resource, review)
            answer["status"]["audiences"] = ["somebody-else"]
            return answer

    assert await _reviewer(Others(), Clock(), audiences=("tieline",)).authenticate("good") is None


async def test_permissions_are_asked_per_verb_kind_and_namespace_and_kept_for_ten_seconds() -> None:
    reviews, clock = Reviews(), Clock()
    access = Access(reviews, clock=clock)  # type: ignore[arg-type]
    caller = Caller(username="ann", groups=("staff",))
    for _ in range(3):
        await access.check(caller, ORGANISATION, [Permission("list", "projects")])
    assert len(reviews.asked) == 1
    await access.check(
        caller, Organisation(id=ORGANISATION.id, namespace="other"), [Permission("list", "projects")]
    )
    assert len(reviews.asked) == 2
    clock.now = 11
    await access.check(caller, ORGANISATION, [Permission("list", "projects")])
    assert len(reviews.asked) == 3


async def test_a_member_without_the_permission_is_told_what_is_missing() -> None:
    access = Access(Reviews())  # type: ignore[arg-type]
    with pytest.raises(ApiError) as caught:
        await access.check(Caller(username="ann"), ORGANISATION, [Permission("delete", "systems")])
    assert caught.value.status == 403
    assert "delete systems" in caught.value.message


async def test_a_stranger_does_not_learn_that_the_organisation_exists() -> None:
    reviews = Reviews()
    reviews.allowed = set()
    access = Access(reviews)  # type: ignore[arg-type]
    with pytest.raises(ApiError) as caught:
        await access.check(Caller(username="eve"), ORGANISATION, [Permission("list", "systems")])
    assert caught.value.status == 404
    assert "acme" not in caught.value.message


@pytest.mark.parametrize("header", ["Bearer abc", "bearer abc", "JWT abc", "jwt   abc "])
def test_both_words_before_the_token_are_accepted(header: str) -> None:
    assert bearer_token({"Authorization": header}) == "abc"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "abc"},
        {"Authorization": "Basic abc"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer a b"},
        {"Authorization": "Bearer \x00"},
        {"Authorization": "Bearer " + "a" * 20000},
    ],
)
def test_anything_else_is_401_with_the_challenge(headers: dict[str, str]) -> None:
    with pytest.raises(ApiError) as caught:
        bearer_token(headers)
    assert caught.value.status == 401
    assert caught.value.headers["WWW-Authenticate"].startswith("Bearer")


async def test_a_token_that_nobody_knows_is_401() -> None:
    with pytest.raises(ApiError) as caught:
        await AuthenticatorChain([_reviewer(Reviews(), Clock())]).caller({"Authorization": "Bearer bad"})
    assert caught.value.status == 401


async def test_while_kubernetes_is_away_what_was_known_counts_a_while_longer() -> None:
    reviews, clock = Reviews(), Clock()
    access = Access(reviews, seconds=10, away_seconds=300, clock=clock)  # type: ignore[arg-type]
    caller, listing, creating = (
        Caller(username="ann"),
        Permission("list", "projects"),
        Permission("create", "projects"),
    )
    assert await access.allowed(caller, "acme", listing)
    assert not await access.allowed(caller, "acme", creating)
    reviews.away = True
    clock.now = 250
    assert await access.allowed(caller, "acme", listing)
    assert not await access.allowed(caller, "acme", creating), "a refusal stays one"
    with pytest.raises(Unavailable):
        await access.allowed(caller, "acme", Permission("get", "projects"))
    clock.now = 311
    with pytest.raises(Unavailable):
        await access.allowed(caller, "acme", listing)


async def test_what_kubernetes_takes_back_counts_as_soon_as_it_answers_again() -> None:
    reviews, clock = Reviews(), Clock()
    access = Access(reviews, seconds=10, away_seconds=300, clock=clock)  # type: ignore[arg-type]
    caller, listing = Caller(username="ann"), Permission("list", "projects")
    assert await access.allowed(caller, "acme", listing)
    reviews.away = True
    clock.now = 20
    assert await access.allowed(caller, "acme", listing)
    reviews.away = False
    reviews.allowed = set()
    clock.now = 23
    assert not await access.allowed(caller, "acme", listing)
