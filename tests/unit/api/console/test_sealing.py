"""What is sealed can be read by the API alone, for the purpose that it was sealed for."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.console.sealing import Key, KeyRing, UnknownKeyError, UnsealError

RING = KeyRing((Key.new(),))


@given(content=st.binary(max_size=20_000))
def test_what_is_sealed_comes_out_again(content: bytes) -> None:
    assert RING.unseal("session", RING.seal("session", content)) == content


@given(content=st.binary(min_size=1, max_size=50), data=st.data())
def test_a_text_with_any_bit_changed_is_refused(content: bytes, data: st.DataObject) -> None:
    sealed = RING.seal("session", content)
    raw = bytearray(base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)))
    place = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[place // 8] ^= 1 << place % 8
    with pytest.raises(UnsealError):
        RING.unseal("session", base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("="))


@given(text=st.text(max_size=200))
def test_texts_of_others_are_refused(text: str) -> None:
    with pytest.raises(UnsealError):
        RING.unseal("session", text)


def test_a_text_for_one_purpose_is_none_for_another() -> None:
    with pytest.raises(UnsealError):
        RING.unseal("login", RING.seal("session", b"content"))


def test_a_new_key_leaves_what_the_one_before_has_sealed_readable_and_the_next_does_not() -> None:
    first, second, third = Key.new(), Key.new(), Key.new()
    sealed = KeyRing((first,)).seal("session", b"content")
    assert KeyRing((second, first)).unseal("session", sealed) == b"content"
    with pytest.raises(UnknownKeyError):
        KeyRing((third, second)).unseal("session", sealed)


def test_the_same_content_never_looks_the_same() -> None:
    assert RING.seal("session", b"content") != RING.seal("session", b"content")
