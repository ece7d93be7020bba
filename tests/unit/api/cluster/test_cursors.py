"""Lists in pages: nothing twice, nothing that stayed left out, whatever is written meanwhile."""

import base64

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from tieline_api import cursors
from tieline_api.errors import ApiError

Item = tuple[str, str]


def _item(number: int) -> Item:
    # Several items share a second, as objects of one `kubectl apply` do.
    return f"2026-11-21T10:00:{number // 3:02d}Z", str(ULID.from_bytes(bytes(14) + number.to_bytes(2, "big")))


def _page(items: set[Item], **options: object) -> cursors.Slice[Item]:
    return cursors.cut(items, kind="things", position=lambda item: item, **options)  # type: ignore[arg-type]


@given(
    initial=st.sets(st.integers(0, 150), max_size=40),
    first=st.integers(1, 7),
    writes=st.lists(st.tuples(st.booleans(), st.integers(0, 150)), max_size=60),
    newest_first=st.booleans(),
)
def test_walking_the_pages_shows_what_stayed_exactly_once(
    initial: set[int], first: int, writes: list[tuple[bool, int]], newest_first: bool
) -> None:
    items = {_item(number) for number in initial}
    stayed = set(items)
    seen: list[Item] = []
    after = None
    pending = list(writes)
    while True:
        page = _page(items, first=first, after=after, newest_first=newest_first)
        seen += page.items
        for add, number in pending[:2]:
            items = items | {_item(number)} if add else items - {_item(number)}
            if not add:
                stayed -= {_item(number)}
        pending = pending[2:]
        after = page.next
        if after is None:
            break
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen, reverse=newest_first)
    assert stayed <= set(seen)


@given(
    numbers=st.sets(st.integers(0, 150), min_size=1, max_size=40),
    first=st.integers(1, 7),
    newest_first=st.booleans(),
)
def test_walking_back_shows_the_same_pages(numbers: set[int], first: int, newest_first: bool) -> None:
    items = {_item(number) for number in numbers}
    page = _page(items, first=first, newest_first=newest_first)
    assert page.prev is None
    forth = [page.items]
    while page.next:
        page = _page(items, first=first, after=page.next, newest_first=newest_first)
        forth.append(page.items)
    back = [page.items]
    while page.prev:
        page = _page(items, first=first, before=page.prev, newest_first=newest_first)
        back.insert(0, page.items)
    assert [item for items in back for item in items] == [item for items in forth for item in items]
    assert page.total == len(items)


@given(
    initial=st.sets(st.integers(0, 150), min_size=1, max_size=40),
    first=st.integers(1, 7),
    writes=st.lists(st.tuples(st.booleans(), st.integers(0, 150)), max_size=60),
    newest_first=st.booleans(),
)
def test_walking_back_under_writes_shows_what_stayed_exactly_once(
    initial: set[int], first: int, writes: list[tuple[bool, int]], newest_first: bool
) -> None:
    items = {_item(number) for number in initial}
    end = (max if not newest_first else min)(items)
    stayed, seen = items - {end}, []
    before: str | None = cursors.encode("things", end)
    pending = list(writes)
    while before is not None:
        page = _page(items, first=first, before=before, newest_first=newest_first)
        seen = [*page.items, *seen]
        for add, number in pending[:2]:
            items = items | {_item(number)} if add else items - {_item(number)}
            if not add:
                stayed -= {_item(number)}
        pending = pending[2:]
        before = page.prev
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen, reverse=newest_first)
    assert stayed <= set(seen)


@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense",
        "=",
        "é",
        "a" * 600,
        base64.urlsafe_b64encode(b"{}").decode(),
        base64.urlsafe_b64encode(orjson.dumps([1, "others", "2026", "01JD3Y7M5RZX9KQW8T2V4N6P0A"])).decode(),
        base64.urlsafe_b64encode(orjson.dumps([2, "things", "2026", "01JD3Y7M5RZX9KQW8T2V4N6P0A"])).decode(),
        base64.urlsafe_b64encode(orjson.dumps([1, "things", "2026", "x"])).decode(),
        base64.urlsafe_b64encode(orjson.dumps([1, "things", 3, None])).decode(),
    ],
)
def test_a_cursor_that_was_not_ours_is_400(cursor: str) -> None:
    with pytest.raises(ApiError) as error:
        _page({_item(1)}, after=cursor)
    assert error.value.status == 400


@given(st.text(max_size=80))
def test_no_text_as_cursor_is_worse_than_400(text: str) -> None:
    def status() -> int:
        try:
            cursors.decode("things", text)
        except ApiError as error:
            return error.status
        return 200

    assert status() in (200, 400)


def test_a_page_between_two_cursors() -> None:
    items = {_item(number) for number in range(10)}
    low = cursors.encode("things", _item(2))
    high = cursors.encode("things", _item(6))
    assert _page(items, after=low, before=high).items == [_item(3), _item(4), _item(5)]
