"""Pages of keys: each key once, in order, both ways, whatever is written between pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.errors import ApiError
from tieline_api.schemas.store import StoreFilter, StoreList, StorePage
from tieline_api.state.store_keys import page_of, selected

PARTS = st.text(st.characters(exclude_categories=("C", "Zs", "Zl", "Zp"), exclude_characters="/"), min_size=1)
KEYS = st.sets(st.lists(PARTS, min_size=1, max_size=3).map("/".join), max_size=25)


def _request(limit: int, reverse: bool, **cursor: str | None) -> StoreList:
    return StoreList.model_validate(
        {"selector": cursor, "options": {"limit": limit, "reverse": reverse}},
    )


def _shown(page: StorePage) -> list[tuple[str, ...]]:
    return [tuple(one.key) for one in page.data]


@given(KEYS, st.integers(1, 10), st.booleans())
def test_following_the_cursors_shows_every_key_once_forwards_and_backwards(
    keys: set[str], limit: int, reverse: bool
) -> None:
    ordered = sorted((tuple(key.split("/")) for key in keys), reverse=reverse)
    pages = [page_of(keys, _request(limit, reverse))]
    assert pages[0].pagination.prev_cursor is None
    while (cursor := pages[-1].pagination.next_cursor) is not None:
        pages.append(page_of(keys, _request(limit, reverse, after=cursor)))
    assert [one for page in pages for one in _shown(page)] == ordered
    assert all(len(page.data) == limit for page in pages[:-1])
    back = [pages[-1]]
    while (cursor := back[-1].pagination.prev_cursor) is not None:
        back.append(page_of(keys, _request(limit, reverse, before=cursor)))
    assert [one for page in reversed(back) for one in _shown(page)] == ordered


@given(KEYS, KEYS, st.integers(1, 5))
def test_what_is_written_meanwhile_repeats_and_leaves_out_nothing(
    keys: set[str], added: set[str], limit: int
) -> None:
    seen: list[tuple[str, ...]] = []
    page = page_of(keys, _request(limit, False))
    while True:
        seen += _shown(page)
        if (cursor := page.pagination.next_cursor) is None:
            break
        page = page_of(keys | added, _request(limit, False, after=cursor))
    assert seen == sorted(set(seen))
    assert {tuple(key.split("/")) for key in keys} <= set(seen)


def test_keys_are_selected_by_parts_and_by_text() -> None:
    keys = ["orders", "orders/1", "orders/1/lines", "orders2/1", "users/orders"]
    assert selected(keys, StoreFilter(prefix=["orders"])) == [("orders", "1"), ("orders", "1", "lines")]
    assert selected(keys, StoreFilter(prefix=[], filter="orders/1")) == [
        ("orders", "1"),
        ("orders", "1", "lines"),
    ]
    assert len(selected(keys, StoreFilter(prefix=[]))) == 5


@pytest.mark.parametrize("cursor", ["", "x", "WzEsICJrdiJd", "WzEsImt2Iiw3XQ"])
def test_a_cursor_that_is_none_is_refused_by_its_field(cursor: str) -> None:
    with pytest.raises(ApiError) as refused:
        page_of(["a"], _request(1, False, after=cursor))
    assert (refused.value.status, refused.value.fields[0].field) == (422, "selector.after")
