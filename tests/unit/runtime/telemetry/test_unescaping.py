"""Secrets are found through escapes that no list of forms could name."""

import html
import json
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.telemetry.redaction import Redactor
from tieline.telemetry.unescaping import unescaped

SECRET = "s3cr&t/k\u00e4y=+\U0001f511"


def escape(letter: str, how: int) -> str:
    """A letter as one of many writers writes it."""
    units = letter.encode("utf-16-be").hex()
    return (
        letter,
        "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)),
        f"&#{ord(letter)};",
        f"&#x{ord(letter):X};",
        "".join(f"%{byte:02x}" for byte in letter.encode()),
        "".join(f"\\x{byte:02x}" for byte in letter.encode()),
        f"\\u{{{ord(letter):x}}}",
    )[how]


@given(st.lists(st.integers(0, 6), min_size=len(SECRET), max_size=len(SECRET)), st.booleans())
def test_a_secret_is_masked_whichever_letters_are_escaped(how: list[int], in_a_url: bool) -> None:
    redact = Redactor()
    redact.learn([SECRET])
    written = "".join(map(escape, SECRET, how))
    text = f"é\\u00e9 {written}&amp;%20"
    shown, whole = ("%20{}%41", quote(text)) if in_a_url else ("<{}>", text)
    masked = redact(shown.format(whole))
    before, after = ("%20%C3%A9%5Cu00e9%20", "%26amp%3B%2520%41") if in_a_url else ("<é\\u00e9 ", "&amp;%20>")
    assert masked == f"{before}***{after}"
    assert redact.suspects(whole)


@given(st.text(max_size=60))
def test_every_part_of_a_text_comes_from_a_part_of_its_source(text: str) -> None:
    for written in (json.dumps(text), quote(text, errors="surrogatepass"), html.escape(json.dumps(text))):
        for view in unescaped(written):
            ends = [view.source((at, at + 1)) for at in range(len(view.text))]
            assert all(0 <= begin < end <= len(written) for begin, end in ends)
            assert all(first[1] <= second[0] for first, second in pairwise(ends))


@pytest.mark.parametrize("text", ["plain", "100% & more", 'a "b" \n c\\\\', "a\\nb", "?a=1&b=2", ""])
def test_usual_texts_are_searched_once(text: str) -> None:
    assert list(unescaped(text)) == []


@pytest.mark.parametrize(
    "text", ["&nosuch; %41", "\\ud83d\\u0041", "&#x110000;\\U99999999%zz%4", "&#0;%80%ff"]
)
def test_escapes_of_nothing_are_no_error(text: str) -> None:
    Redactor()(text)
    for view in unescaped(text):
        assert view.source((0, len(view.text))) == (0, len(text))
