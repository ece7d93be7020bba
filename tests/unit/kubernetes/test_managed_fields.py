"""What a manager owns of an object, for all objects and all subsets of their fields."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline_core.kubernetes import owned

Object = dict[str, Any]
Fields = dict[str, Any]

SCALARS = st.one_of(st.text(max_size=3), st.integers(-5, 5), st.booleans(), st.none())
KEYS = st.text("abcdef.:/-", min_size=1, max_size=4)
# An item of a list-map: keyed by "id".
ITEMS = st.lists(
    st.fixed_dictionaries(
        {"id": st.text("xyz", min_size=1, max_size=2)}, optional={"a": SCALARS, "b": SCALARS}
    ),
    max_size=4,
    unique_by=lambda item: item["id"],
)
SETS = st.lists(st.text("xyz", max_size=3), max_size=4, unique=True).map(lambda values: ("set", values))
ATOMS = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(KEYS, SCALARS, max_size=2)).map(
    lambda value: ("atom", value)
)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(ATOMS, SETS, ITEMS.map(lambda items: ("items", items))),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3).map(lambda children: ("map", children)),
    max_leaves=12,
)


def whole(tree: Any) -> Any:
    """The object that a tree describes."""
    kind, content = tree
    return {key: whole(child) for key, child in content.items()} if kind == "map" else content


@st.composite
def subsets(draw: st.DrawFn, tree: Any) -> tuple[Fields, Any]:
    """FieldsV1 that name a part of the tree, and that part."""
    kind, content = tree
    if kind == "map":
        fields: Fields = {".": {}}
        part: Any = {}
        for key, child in content.items():
            if draw(st.booleans()):
                fields[f"f:{key}"], part[key] = draw(subsets(child))
        return fields, part
    if kind == "set":
        chosen = [value for value in content if draw(st.booleans())]
        return {".": {}, **{f"v:{orjson.dumps(value).decode()}": {} for value in chosen}}, chosen
    if kind == "items":
        fields, part = {".": {}}, []
        for item in content:
            if draw(st.booleans()):
                names = [name for name in item if name == "id" or draw(st.booleans())]
                key = orjson.dumps({"id": item["id"]}).decode()
                fields[f"k:{key}"] = {".": {}, **{f"f:{name}": {} for name in names}}
                part.append({name: item[name] for name in names})
        return fields, part
    return {}, content


def entry(fields: Fields, manager: str = "me", operation: str = "Apply", **more: str) -> Object:
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def thing(*managed: Object, **content: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": "one", "namespace": "acme", "uid": "uid-1", "managedFields": list(managed)},
        **content,
    }


BARE = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "one", "namespace": "acme"}}


@given(data=st.data(), tree=TREES)
@settings(max_examples=120, derandomize=True)
def test_exactly_the_chosen_part_is_extracted(data: st.DataObject, tree: Any) -> None:
    fields, part = data.draw(subsets(tree))
    theirs, _ = data.draw(subsets(tree))
    obj = thing(
        entry({"f:spec": theirs}, "someone"),
        entry({"f:spec": fields}),
        entry({"f:spec": theirs}, operation="Update"),
        entry({"f:spec": theirs}, subresource="status"),
        spec=whole(tree),
    )
    before = copy.deepcopy(obj)
    assert owned(obj, "me") == {**BARE, "spec": part}
    assert obj == before


@given(data=st.data(), tree=TREES)
@settings(max_examples=50, derandomize=True)
def test_the_extracted_part_can_be_changed_without_changing_the_object(
    data: st.DataObject, tree: Any
) -> None:
    fields, _ = data.draw(subsets(tree))
    obj = thing(entry({"f:spec": fields}), spec=whole(tree))
    before = copy.deepcopy(obj)
    _spoil(owned(obj, "me"))
    assert obj == before


def _spoil(value: Any) -> None:
    if isinstance(value, dict):
        for child in value.values():
            _spoil(child)
        value.clear()
    elif isinstance(value, list):
        for child in value:
            _spoil(child)
        value.append("spoilt")


@pytest.mark.parametrize(
    "managed",
    [(), (entry({}),), (entry({"f:spec": {}}, "someone"),), (entry({"f:spec": {}}, operation="Update"),)],
    ids=["nobody", "nothing", "someone else", "by update"],
)
def test_who_owns_nothing_gets_the_name_alone(managed: tuple[Object, ...]) -> None:
    assert owned(thing(*managed, spec={"a": 1}), "me") == BARE


def test_a_subresource_has_an_owner_of_its_own() -> None:
    obj = thing(
        entry({"f:spec": {"f:a": {}}}),
        entry({"f:status": {"f:ready": {}}}, subresource="status"),
        spec={"a": 1},
        status={"ready": True, "other": 1},
    )
    assert owned(obj, "me") == {**BARE, "spec": {"a": 1}}
    assert owned(obj, "me", subresource="status") == {**BARE, "status": {"ready": True}}


def test_of_the_metadata_only_what_can_be_applied_is_kept() -> None:
    obj = thing(
        entry(
            {
                "f:metadata": {
                    "f:labels": {"f:mine": {}},
                    "f:ownerReferences": {'k:{"uid":"u1"}': {}},
                    "f:generateName": {},
                }
            }
        )
    )
    obj["metadata"] |= {
        "generateName": "on",
        "labels": {"mine": "1", "theirs": "2"},
        "ownerReferences": [{"uid": "u1", "name": "a"}, {"uid": "u2", "name": "b"}],
    }
    assert owned(obj, "me")["metadata"] == {
        "name": "one",
        "namespace": "acme",
        "labels": {"mine": "1"},
        "ownerReferences": [{"uid": "u1", "name": "a"}],
    }


def test_an_empty_map_that_others_have_filled_stays_empty() -> None:
    obj = thing(
        entry({"f:spec": {"f:labels": {}}}),
        entry({"f:spec": {"f:labels": {"f:theirs": {}}}}, "someone"),
        spec={"labels": {"theirs": "1"}},
    )
    assert owned(obj, "me") == {**BARE, "spec": {"labels": {}}}


def test_items_come_with_their_keys_in_the_order_of_the_list() -> None:
    ports = [{"port": 80, "protocol": "TCP", "name": "a"}, {"port": 80, "protocol": "UDP", "name": "b"}]
    fields: Fields = {
        'k:{"port":80,"protocol":"UDP"}': {"f:name": {}},
        'k:{"port":80,"protocol":"TCP"}': {"f:name": {}},
        'k:{"port":81,"protocol":"TCP"}': {"f:name": {}},
    }
    assert owned(thing(entry({"f:ports": fields}), ports=ports), "me")["ports"] == ports


def test_fields_that_are_gone_are_left_out() -> None:
    obj = thing(entry({"f:spec": {"f:a": {}, "f:gone": {}, "f:list": {"i:0": {}, "i:7": {}}}}), spec={"a": 1})
    obj["spec"]["list"] = ["first", "second"]
    assert owned(obj, "me")["spec"] == {"a": 1, "list": ["first"]}


def test_true_is_not_one() -> None:
    assert owned(thing(entry({"f:set": {"v:1": {}}}), set=[True, 1, 2]), "me")["set"] == [1]
    assert owned(thing(entry({"f:set": {"v:true": {}}}), set=[1, True]), "me")["set"][0] is True
