"""Names of webhooks with path parameters, and which of them cannot be side by side."""

from itertools import permutations
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import example, given
from hypothesis import strategies as st

from tieline import Integration
from tieline.server.applications import webhook_application
from tieline_protocol.webhook_names import (
    conflict,
    most_specific_first,
    name_problem,
    path_parameters,
    registration_problem,
    serving,
)


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "a.b_c-1",
        "users",
        "orders/{orderId}",
        "orders/{orderId}/lines/{_line}",
        "v1/orders",
        "a" * 100,
    ],
)
def test_names_that_can_be(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "1 to 100"),
        ("/orders", "1 to 100"),
        ("orders/", "1 to 100"),
        ("orders//x", "1 to 100"),
        ("{orderId}", "1 to 100"),
        ("orders/{order-id}", "1 to 100"),
        ("orders/{1}", "1 to 100"),
        ("orders/{}", "1 to 100"),
        ("orders/x{id}", "1 to 100"),
        ("orders/{id:.*}", "1 to 100"),
        ("orders/..", "1 to 100"),
        ("orders/%2e", "1 to 100"),
        ("orders\n", "1 to 100"),
        ("a" * 101, "1 to 100"),
        ("/".join("abcdefghi"), "1 to 100"),
        ("orders/{id}/lines/{id}", "twice"),
        ("orders/{external_id}", "which is the user of"),
        ("orders/users", "leads to a webhook's users"),
        ("orders/users/{id}", "leads to a webhook's users"),
    ],
)
def test_names_that_cannot_be_are_told(name: str, words: str) -> None:
    assert words in (name_problem(name) or "")


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("orders/{id}", "orders/{orderId}", "'orders/{id}' and 'orders/{orderId}' both match /orders/x"),
        ("a/{x}/c", "a/b/{y}", "both match /a/b/c, and none is more specific"),
        ("orders", "orders/{a}/{b}", "both match /orders/users/x, which leads to a user of one of them"),
    ],
)
def test_names_that_match_the_same_path_conflict(one: str, other: str, words: str) -> None:
    assert words in (conflict(one, [other]) or "")
    assert conflict(other, [one])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("orders/latest", "orders/{id}"),
        ("orders", "orders/{id}"),
        ("orders/{id}", "orders/{id}/lines"),
        ("a/b/{x}", "a/{y}/{z}"),
        ("orders/{id}", "returns/{id}"),
        ("users", "users/{id}"),
    ],
)
def test_names_that_can_be_side_by_side(one: str, other: str) -> None:
    assert conflict(one, [other]) is None
    assert conflict(other, [one]) is None


def test_literal_segments_are_matched_first() -> None:
    names = ["a/{x}", "a/b", "a/{x}/{y}", "a/b/{y}"]
    for order in permutations(names):
        found = most_specific_first(order)
        assert found.index("a/b") < found.index("a/{x}")
        assert found.index("a/b/{y}") < found.index("a/{x}/{y}")


def test_parameters_are_listed_from_left_to_right() -> None:
    assert path_parameters("orders/{order}/lines/{line}") == ["order", "line"]


@given(st.text(alphabet="ab{}/.%u", max_size=20))
def test_any_text_is_a_name_or_told(text: str) -> None:
    if name_problem(text) is None:
        assert text[0] not in "{/."
        assert not text.endswith("/")
        assert len(set(path_parameters(text))) == text.count("{")


NAMES = st.lists(
    st.lists(
        st.sampled_from(["orders", "latest", "a", "b", "{x}", "{y}", "{z}"]), min_size=1, max_size=4
    ).map(lambda parts: "/".join(["orders", *parts[1:]])),
    min_size=1,
    max_size=6,
)


@given(
    NAMES,
    st.lists(st.sampled_from(["orders", "latest", "a", "b", "users", "é ?", "{x}"]), min_size=1, max_size=4),
)
@example(["orders/{x}"], ["orders", "{x}"])
async def test_a_path_serves_the_webhook_that_pods_run_for_it(names: list[str], parts: list[str]) -> None:
    taken: list[str] = []
    for name in names:
        if registration_problem(name, taken) is None:
            taken.append(name)
    integration = Integration()
    for name in taken:
        integration.webhook(name)(lambda: None)

    async def run(_webhook: object, _request: object) -> None: ...

    runner: Any = SimpleNamespace(run=run)
    application = webhook_application(integration.webhooks, runner, max_body=1)
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    found = await application.router.resolve(make_mocked_request("POST", path))
    if "external_id" in found or "path" in found:
        assert serving(parts, taken) is None
    else:
        assert serving(parts, taken) == found.handler.args[0].name  # type: ignore[attr-defined]
