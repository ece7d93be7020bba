"""The filter of a list of traces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.traces.query import MAX_TERMS, BadFilterError, parse_filter


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        ("   ", ()),
        ("executionId:01J", (("executionId", "01J"),)),
        (
            " http.request.method:POST  task:orders ",
            (("http.request.method", "POST"), ("task", "orders")),
        ),
        ("url.full:http://a:80/b", (("url.full", "http://a:80/b"),)),
        ('"order id":"A 1"', (("order id", "A 1"),)),
        (r'say:"a \"b\" \\ c"', (("say", r'a "b" \ c'),)),
        ("empty:", (("empty", ""),)),
        ('a:"x:y z" b:c', (("a", "x:y z"), ("b", "c"))),
    ],
)
def test_pairs_are_read(text: str, terms: tuple[tuple[str, str], ...]) -> None:
    assert parse_filter(text) == terms


@pytest.mark.parametrize("text", ["word", ":value", 'a:"open', 'a:"b"c', '"a" b', "a:b word"])
def test_what_is_no_filter_is_told_with_an_example(text: str) -> None:
    with pytest.raises(BadFilterError, match="attribute:value"):
        parse_filter(text)


def test_a_filter_has_a_limit() -> None:
    pairs = ["a:b"] * MAX_TERMS
    assert len(parse_filter(" ".join(pairs))) == MAX_TERMS
    with pytest.raises(BadFilterError, match="at most"):
        parse_filter(" ".join([*pairs, "a:b"]))


@given(st.lists(st.tuples(st.text(max_size=10), st.text(max_size=10)), max_size=MAX_TERMS))
def test_everything_can_be_asked_for_in_quotes(terms: list[tuple[str, str]]) -> None:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    text = " ".join(f"{quoted(key)}:{quoted(value)}" for key, value in terms)
    assert list(parse_filter(text)) == terms
