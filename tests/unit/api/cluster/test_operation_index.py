"""The search index over operations: it finds what looking at each operation would."""

from hypothesis import given
from hypothesis import strategies as st

from tieline_api.cluster.operation_index import VersionIndex, words_of


def operation(number: int, name: str, path: str = "/x", summary: str = "") -> dict[str, str]:
    return {"id": f"id-{number}", "name": name, "method": "GET", "path": path, "summary": summary}


def found(index: VersionIndex, search: str) -> list[str]:
    return [row["id"] for row in index.rows(index.find(words_of(search)))]


def test_every_word_is_somewhere_in_name_method_path_or_summary() -> None:
    index = VersionIndex(
        [
            operation(0, "createOrder", "/orders", "Create an order"),
            operation(1, "listOrders", "/orders", "List orders\nof a shop"),
            operation(2, "listRefunds", "/orders/{id}/refunds"),
        ]
    )
    assert found(index, "ORDER list") == ["id-1", "id-2"]
    assert found(index, "create") == ["id-0"]
    assert found(index, "{id}") == ["id-2"]
    assert found(index, "shop of") == ["id-1"]
    assert found(index, "get") == ["id-0", "id-1", "id-2"]
    assert found(index, "") == ["id-0", "id-1", "id-2"]
    assert found(index, "createorder listorders") == []


def test_rows_are_as_they_were_given() -> None:
    given_ = [operation(number, f"Größe {number}", summary="a\nb") for number in range(3)]
    assert VersionIndex(given_).rows([2, 0]) == [given_[2], given_[0]]


def test_operations_of_graphql_are_found_by_their_kind_too() -> None:
    index = VersionIndex([{**operation(0, "orders", ""), "graphql": "query"}, operation(1, "orders")])
    (row,) = index.rows(index.find(words_of("query orders")))
    assert (row["id"], row["graphql"], row["path"]) == ("id-0", "query", "")
    assert found(index, "orders") == ["id-0", "id-1"]


def test_an_empty_version_has_nothing() -> None:
    assert found(VersionIndex([]), "") == []
    assert found(VersionIndex([]), "x") == []


texts = st.text(st.sampled_from("abAB \n\u2028ßé/{}"), max_size=12)


@given(st.lists(st.tuples(texts, texts, texts), max_size=8), st.text(st.sampled_from("abß e/"), max_size=5))
def test_it_finds_what_looking_at_each_finds(rows: list[tuple[str, str, str]], search: str) -> None:
    operations = [operation(number, *row) for number, row in enumerate(rows)]
    lines = [" ".join(f"{a} get {b} {c}".casefold().split()) for a, b, c in rows]
    expected = [
        f"id-{number}"
        for number, line in enumerate(lines)
        if all(word in line for word in search.casefold().split())
    ]
    assert found(VersionIndex(operations), search) == expected
