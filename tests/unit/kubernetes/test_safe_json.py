"""An object that nests deeper than parsers read keeps nobody from reading the others."""

from __future__ import annotations

import orjson
import pytest

from tieline_core.kubernetes import safe_json


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b'"[{\\"}"' + b"}" * levels


@pytest.mark.parametrize("levels", [1, 200, 228, 231, 254, 300, 1_100, 9_000, 100_000])
def test_a_list_with_a_deep_object_is_read_and_its_objects_can_be_written(levels: int) -> None:
    text = b'{"items":[{"name":"one"},{"spec":' + deep(levels) + b',"name":"two"},{"name":"three"}]}'
    found = safe_json.loads(text)["items"]
    assert [item["name"] for item in found] == ["one", "two", "three"]
    for item in found:
        orjson.dumps(item)
    if levels < safe_json.MAX_DEPTH:
        assert found[1]["spec"] == orjson.loads(deep(levels))
    orjson.dumps({"answer": [found]})


def test_what_is_not_deeper_comes_back_whole() -> None:
    value: object = 1
    for _ in range(safe_json.MAX_DEPTH - 1):
        value = [value]
    obj = {"spec": value}
    listed = b'{"items":[' + orjson.dumps(obj) + b"]}"
    assert safe_json.loads(listed)["items"] == [obj]


def test_what_is_no_json_is_refused_as_before() -> None:
    for text in (b"{", b"[" * 2_000, b'{"a": nonsense}', b""):
        with pytest.raises(orjson.JSONDecodeError):
            safe_json.loads(text)
