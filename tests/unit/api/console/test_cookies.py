"""Cookies: flags, values that need several, and what others may have slipped in."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.console import cookies
from tieline_api.console.cookies import MOST_PIECES, PIECE, TooLargeError

VALUES = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=400)


def sent(headers: list[str]) -> str:
    """What a browser sends back."""
    kept: dict[str, str] = {}
    for header in headers:
        pair, *attributes = header.split("; ")
        name, _, value = pair.partition("=")
        if "Max-Age=0" in attributes:
            kept.pop(name, None)
        else:
            kept[name] = value
    return "; ".join(f"{name}={value}" for name, value in kept.items())


@given(letter=VALUES, length=st.integers(1, PIECE * MOST_PIECES))
def test_a_value_of_any_length_that_is_allowed_comes_back_whole(letter: str, length: int) -> None:
    value = (letter * (length // len(letter) + 1))[:length]
    headers = list(cookies.replacing(value, {}, seconds=60))
    assert cookies.joined(cookies.received([sent(headers)])) == value
    assert all(len(header.split("; ")[0]) < 4000 for header in headers)


def test_a_value_that_is_too_long_is_refused() -> None:
    with pytest.raises(TooLargeError):
        cookies.split("x" * (PIECE * MOST_PIECES + 1))


def test_every_cookie_is_of_this_host_alone_and_out_of_reach_of_scripts() -> None:
    for header in (*cookies.replacing("x" * 5000, {}, seconds=60), *cookies.removing({cookies.SEEN: "y"})):
        name, *attributes = header.split("; ")
        assert name.startswith("__Host-tieline")
        assert {"Path=/", "Secure", "HttpOnly", "SameSite=Strict"} <= set(attributes)
        assert not any(one.startswith("Domain") for one in attributes)


def test_a_shorter_session_leaves_no_piece_of_a_longer_one_behind() -> None:
    long = list(cookies.replacing("x" * (PIECE * 2 + 1), {}, seconds=60))
    before = cookies.received([sent(long)])
    short = list(cookies.replacing("y", before, seconds=60))
    assert cookies.joined(cookies.received([sent([*long, *short])])) == "y"
    assert sent([*long, *short]).count("__Host-") == 1
    assert sent([*long, *cookies.removing(before)]) == ""


def test_a_missing_piece_makes_no_session() -> None:
    first, _second, third = cookies.split("x" * (PIECE * 2 + 1)).items()
    assert cookies.joined(dict([first, third])) is None


@pytest.mark.parametrize("value", ["", "x", ".x", "0.x", "9.x", "-1.x", "99999999999.x", "².x", "1."])
def test_what_was_never_set_is_no_session(value: str) -> None:
    assert cookies.joined({cookies.SESSION: value}) is None


def test_a_cookie_that_comes_twice_counts_for_nothing() -> None:
    header = f"{cookies.SESSION}=1.mine; other=1; {cookies.SESSION}=1.theirs"
    assert cookies.received([header]) == {}
    assert cookies.received([f"{cookies.SESSION}=1.mine", f"{cookies.SESSION}=1.theirs"]) == {}


@given(text=st.text(max_size=300))
def test_no_header_breaks_the_reading(text: str) -> None:
    assert all(name.startswith(cookies.SESSION) for name in cookies.received([text]))
