"""Lists that are kept in order: as if they were sorted anew each time, without looking at what is not shown."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from tieline_api import cursors
from tieline_api.cluster import sorted_lists
from tieline_api.cluster.indexes import by_reference
from tieline_api.cluster.sorted_lists import SortedList, position
from tieline_api.errors import ApiError
from tieline_core.kubernetes.object_store import Change, Store

Obj = dict[str, Any]


def _obj(
    number: int, *, version: int, namespace: str = "acme", owner: str | None = None, name: str = ""
) -> Obj:
    """Several of these share a second, as objects of one `kubectl apply` do."""
    identifier = str(ULID.from_bytes(bytes(14) + number.to_bytes(2, "big")))
    return {
        "metadata": {
            "name": f"object-{number}",
            "namespace": namespace,
            "uid": f"{namespace}-{number}",
            "resourceVersion": str(version),
            "creationTimestamp": f"2026-11-21T10:00:{number % 7:02d}Z",
            "labels": {"tieline.dev/id": identifier},
        },
        "spec": {"name": name or f"Name {number}", "ownerRef": {"name": owner} if owner else None},
    }


class Watched:
    """The part of a cache that an order follows, over the real store."""

    def __init__(self) -> None:
        self.store = Store()
        self.version = 0
        self._subscriber: Any = None

    def subscribe(self, subscriber: Any) -> None:
        self._subscriber = subscriber

    def put(self, number: int, **more: Any) -> None:
        self.version += 1
        self._tell(self.store.put(_obj(number, version=self.version, **more)))

    def delete(self, number: int) -> None:
        self.version += 1
        self._tell(self.store.delete(_obj(number, version=self.version)))

    def _tell(self, change: Change | None) -> None:
        if change is not None:
            self._subscriber(change)


def _ordered(watched: Watched, groups: Any = None, **options: Any) -> SortedList:
    return SortedList(watched, groups or (lambda obj: [obj["metadata"]["namespace"]]), **options)  # type: ignore[arg-type]


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.integers(0, 30),
            st.sampled_from(["acme", "globex"]),
            st.sampled_from([None, "ann", "ben"]),
        ),
        max_size=80,
    )
)
def test_after_any_writes_each_group_is_what_sorting_would_make_of_it(
    writes: list[tuple[bool, int, str, str | None]],
) -> None:
    watched = Watched()
    by_namespace = _ordered(watched)
    told = [by_namespace, by_owner := _ordered(watched, by_reference("ownerRef"))]
    watched._subscriber = lambda change: [one._changed(change) for one in told]
    for keep, number, namespace, owner in writes:
        if keep:
            watched.put(number, namespace=namespace, owner=owner)
        else:
            watched.delete(number)
    for namespace in ("acme", "globex"):
        there = sorted(watched.store.list(namespace), key=position)
        assert list(by_namespace.objects(namespace)) == there
        for owner in ("ann", "ben"):
            owned = [obj for obj in there if (obj["spec"]["ownerRef"] or {}).get("name") == owner]
            assert list(by_owner.objects(f"{namespace}/{owner}")) == owned


def test_a_search_finds_upper_and_lower_case_in_any_of_its_fields_and_not_across_them() -> None:
    watched = Watched()
    order = _ordered(watched, searched=("name", "domain"))
    watched.put(1, name="Straße")
    watched.put(2, name="Shop")
    assert [obj["spec"]["name"] for obj in (row.obj for row in order.rows("acme", search="STRASSE"))] == [
        "Straße"
    ]
    assert len(order.rows("acme", search="")) == 2
    assert order.rows("acme", search="shop\nx") == []
    watched.put(2, name="Store")
    assert order.rows("acme", search="shop") == []


def test_what_moves_to_another_group_leaves_the_one_it_was_in() -> None:
    watched = Watched()
    order = _ordered(watched, by_reference("ownerRef"))
    watched.put(1, owner="ann")
    watched.put(1, owner="ben")
    assert (len(order.rows("acme/ann")), len(order.rows("acme/ben"))) == (0, 1)
    watched.delete(1)
    assert order.rows("acme/ben") == []


class Counted(Sequence[tuple[str, str]]):
    """A long list that counts what is looked at."""

    def __init__(self, items: list[tuple[str, str]]) -> None:
        self.items = items
        self.looked = 0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        found = self.items[index]
        self.looked += len(found) if isinstance(index, slice) else 1
        return found


@pytest.mark.parametrize("length", [100, 60_000])
def test_a_page_costs_as_much_from_a_long_list_as_from_a_short_one(length: int) -> None:
    items = Counted([position(_obj(number, version=1)) for number in range(length)])
    items.items.sort()
    for way in ("after", "before"):
        items.looked = 0
        cursor = cursors.encode("things", items.items[length // 2])
        page = cursors.cut_sorted(items, kind="things", position=lambda one: one, **{way: cursor})  # type: ignore[arg-type]
        assert len(page.items) == 20
        assert page.total == length
        assert items.looked <= 20 + 17


def test_a_page_of_an_order_takes_no_cursor_of_another() -> None:
    watched = Watched()
    order = _ordered(watched)
    for number in range(3):
        watched.put(number)
    page = sorted_lists.page(order.rows("acme"), kind="one", first=2)
    assert page.next is not None
    assert len(sorted_lists.page(order.rows("acme"), kind="one", first=2, after=page.next).items) == 1
    with pytest.raises(ApiError) as caught:
        sorted_lists.page(order.rows("acme"), kind="two", first=2, after=page.next)
    assert caught.value.status == 400
