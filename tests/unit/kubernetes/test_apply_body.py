"""Bodies of server-side apply as they are sent: JSON in which nothing is left that YAML reads differently."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_core.kubernetes.apply_body import apply_body

NOT_YAML = "\x7f\x80\x85\x9f\u2028\u2029\ufeff\ufffe\uffff"


@given(st.dictionaries(st.text() | st.text(alphabet=NOT_YAML), st.text() | st.text(alphabet=NOT_YAML)))
def test_characters_that_yaml_reads_differently_are_escaped(obj: dict[str, str]) -> None:
    body = apply_body(obj)
    assert not set(body.decode()) & set(NOT_YAML)
    assert orjson.loads(body) == obj


@pytest.mark.parametrize(
    "letter", ["\xa0", "\u2027", "\u202a", "\ufffd", "\U0001fffe", "\U0010ffff", "é", "漢"]
)
def test_other_characters_are_sent_as_they_are(letter: str) -> None:
    assert letter in apply_body({"a": letter}).decode()


def test_a_long_key_is_marked_as_a_key() -> None:
    long, escaped, short = "k" * 1100, "\x00" * 200, "s" * 900
    value = {"a": [{long: {escaped: 'a": 1'}, short: "v" * 2000}]}
    body = apply_body(value)
    assert body.count(b"? ") == 2
    assert f'{{? "{long}" :{{? "'.encode() in body
    assert orjson.loads(body.replace(b"? ", b"").replace(b'" :', b'":')) == value
