"""Objects that are alike share what is equal in them."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tieline_core.kubernetes.interner import Interner


def deployment(name: str, memory: str = "128Mi") -> dict[str, Any]:
    container = {
        "name": "runtime",
        "resources": {"limits": {"memory": memory}},
        "env": [{"name": "PROJECT", "value": name}, {"name": "REGION", "value": "europe-west"}],
        "livenessProbe": {"httpGet": {"path": "/livez", "port": 8081}},
    }
    obj = {"metadata": {"name": name}, "spec": {"replicas": 0, "template": {"containers": [container]}}}
    parsed: dict[str, Any] = orjson.loads(orjson.dumps(obj))
    return parsed


def container_of(obj: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = obj["spec"]["template"]["containers"][0]
    return found


def test_an_object_says_the_same_as_before() -> None:
    assert Interner()(deployment("orders")) == deployment("orders")


def test_equal_parts_and_words_of_two_objects_are_kept_once() -> None:
    share = Interner()
    one, other = container_of(share(deployment("one"))), container_of(share(deployment("other")))

    assert one["livenessProbe"] is other["livenessProbe"]
    assert one["resources"] is other["resources"]
    assert one["env"][1]["value"] is other["env"][1]["value"]


def test_parts_that_differ_are_not_mixed_up() -> None:
    share = Interner()
    one, other = share(deployment("one", "128Mi")), share(deployment("other", "256Mi"))

    assert container_of(one)["resources"]["limits"]["memory"] == "128Mi"
    assert container_of(other)["resources"]["limits"]["memory"] == "256Mi"
    assert container_of(one)["env"][0]["value"] == "one"


def test_many_different_parts_are_not_remembered_for_ever_but_what_comes_again_is() -> None:
    share = Interner()
    first = container_of(share(deployment("orders")))
    for number in range(3000):
        last = container_of(share(deployment("orders", f"{number}Mi")))

    assert len(share._parts) + len(share._former) <= 512
    assert last["livenessProbe"] is first["livenessProbe"]
    assert last["env"] is first["env"]


def test_what_is_equal_is_kept_once_wherever_it_stands() -> None:
    share = Interner()
    one, other = container_of(share(deployment("one"))), container_of(share(deployment("other")))

    assert one["env"][1] is other["env"][1]
    assert one["livenessProbe"]["httpGet"] is other["livenessProbe"]["httpGet"]
    assert one["env"] is not other["env"]


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-300, 300)
    | st.sampled_from([0.0, 1.0, 0.5])
    | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)


@given(st.lists(st.dictionaries(st.text(max_size=2), JSON, max_size=4), max_size=6))
def test_whatever_is_in_objects_they_say_the_same_as_before(objects: list[dict[str, Any]]) -> None:
    """To the letter: ``True``, ``1`` and ``1.0`` are equal to Python, and so are a list's and an object's nothing."""
    written = [orjson.dumps(obj) for obj in objects]
    share = Interner()
    shared = [share(orjson.loads(text)) for text in written]
    assert [orjson.dumps(obj) for obj in shared] == written
