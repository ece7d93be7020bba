"""Which tasks for events code declares, as far as it can be seen without running it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_protocol.python_source import events_in


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", set()),
        ("@integration.event('a')\nasync def f(ctx): ...", {"a"}),
        (
            "@integration.event(name='a', retry=R)\ndef f(ctx): ...\n@other.event('b.c')\ndef g(ctx): ...",
            {"a", "b.c"},
        ),
        ("integration.event('a')(f)", {"a"}),
        ("integration.waits_for('a')\nintegration.waits_for('b', match=['id'])", {"a", "b"}),
        ("@integration.webhook('orders')\nasync def f(ctx): ...\nctx.publish('a', {})", set()),
        ("x = getattr(order, 'status')", set()),
    ],
)
def test_names_that_stand_in_the_code_are_seen(code: str, expected: set[str]) -> None:
    assert events_in(ast.parse(code)) == expected


@pytest.mark.parametrize(
    "code",
    [
        "integration.event(NAME)(f)",
        "integration.event(f'a{1}')(f)",
        "integration.event()(f)",
        "register = integration.event\nregister('a')(f)",
        "helper(integration.event)",
        "getattr(integration, 'event')('a')(f)",
        "getattr(integration, kind)('a')(f)",
        "integration.event(*NAMES)(f)",
        "integration.event(1)(f)",
        "integration.waits_for(NAME)",
        "getattr(integration, 'waits_for')('a')",
    ],
)
def test_what_cannot_be_seen_is_said_to_be_unknown(code: str) -> None:
    assert events_in(ast.parse(f"integration.event('b')(f)\n{code}")) is None


@given(st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True), max_size=5))
def test_each_declared_name_is_seen(names: list[str]) -> None:
    code = "\n".join(f"@integration.event({name!r})\nasync def f(ctx): ..." for name in names)
    assert events_in(ast.parse(code)) == set(names)
